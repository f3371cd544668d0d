"""Who answers for a unit, and by which hash."""

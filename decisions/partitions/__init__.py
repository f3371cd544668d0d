"""The monthly partitions of large tables: creating them ahead of time, and dropping old months."""

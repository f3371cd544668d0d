"""What people judge: labels, verdicts, and what an app's user says of an item's change of status."""

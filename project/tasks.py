"""Job kinds that need every floor: the demo loop."""

"""The monthly partitions of large tables: making them ahead of time, and dropping old months."""

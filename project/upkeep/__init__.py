"""Disk use and retention: the daily job that removes old data, the commands, and the page."""

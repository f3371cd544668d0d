"""The methods, a file each, and what methods on logged rows or on fresh decisions share."""

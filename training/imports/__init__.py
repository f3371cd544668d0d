"""Imports files of decisions or rows for training over the page and the API: checked first, then written by a job."""

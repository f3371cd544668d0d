"""Imports files of decisions or labelled rows over the page and the API: checked first, then written by a job."""

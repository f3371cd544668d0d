"""Files of decisions or labelled rows, taken in by a job: checked first, then written; by the page and the API."""

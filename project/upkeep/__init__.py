"""How long things are kept, and what takes how much room: the daily job, the commands, the page."""

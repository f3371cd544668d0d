"""Labels and verdicts of reviewers, and feedback of an app's users on changes of items' status."""

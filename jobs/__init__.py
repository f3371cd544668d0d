"""Background work: jobs as rows in PostgreSQL, which Celery workers run under a lease. Floors above register kinds."""

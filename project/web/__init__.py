"""The web server: gunicorn forks the workers, and waitress in each of them waits for slow clients."""

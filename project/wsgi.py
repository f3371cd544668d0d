"""The web process: `python -m gunicorn -c python:project.web.server project.wsgi:application`."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from jobs.registry import list_kinds
from project.postgresql.watch import watch_database
from workspaces.http.structs import prepare_structs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = get_wsgi_application()
watch_database()
# What is loaded now stays for the life of the process. A batch makes so many objects that the collector would go
# through all of it several times for each, which took more CPU than recording the batch.
get_resolver().url_patterns  # noqa: B018 - loads every view
list_kinds()  # and what enqueuing jobs needs
prepare_structs()  # requests are answered by threads
gc.collect()
gc.freeze()
# And it looks for cycles after ten thousand new objects instead of seven hundred: an answered request leaves few.
gc.set_threshold(10_000, 20, 20)

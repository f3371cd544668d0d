"""Settings of the tests: real PostgreSQL and Valkey, kept for the session by project.embedded.testing.

With DATABASE_URL and REDIS_URL set, the same tests run against servers reached over TCP.
"""

import os
import sys
import tempfile
import zlib
from pathlib import Path

# Where bytecode is forbidden, each of the many processes of a test session would compile every module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The workers fill the processors: a second thread of OpenMP in each would spin while it waits for its turn.
os.environ.setdefault("OMP_NUM_THREADS", "1")

PROJECT = Path(__file__).resolve().parent.parent
TEST_VAR = Path(os.environ.get("RECKONER_TEST_VAR") or PROJECT / "var" / "test")
# Artifacts, runs and secrets of one session stay out of a developer's own instance.
if "RECKONER_VAR" not in os.environ:  # workers and subprocesses use the controller's
    os.environ["RECKONER_VAR"] = tempfile.mkdtemp(prefix="reckoner-test-")
SESSION_VAR = Path(os.environ["RECKONER_VAR"])

if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
    from project.embedded.testing import ensure_test_services

    services = ensure_test_services(TEST_VAR)
    os.environ.setdefault("DATABASE_URL", services.database_url)
    os.environ.setdefault("REDIS_URL", services.redis_url)
elif "RECKONER_TEST_SESSION" in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
    # A test that clears the cache clears that of its own worker: the databases after the session's.
    number = 1 + int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    database = (zlib.crc32(os.environ["RECKONER_TEST_SESSION"].encode()) + number) % 64
    os.environ["REDIS_URL"] = f"{os.environ['REDIS_URL'].rpartition('/')[0]}/{database}"

from project.settings import *  # noqa: E402, F403

INSTALLED_APPS.append("allauth.socialaccount.providers.openid_connect")  # noqa: F405
WHITENOISE_AUTOREFRESH = True  # every test client would list all static files before its first request
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["*"]
JOB_LEASE_SECONDS = 6.0
JOB_RETRY_SECONDS = 0.0
KEY_REQUESTS_A_MINUTE = LOG_IN_FAILURES = 0

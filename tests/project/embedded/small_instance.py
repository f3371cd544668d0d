"""`up` with real databases and stand-ins for Reckoner's own programs, which are looked after more often.

usage: small_instance.py VAR PORT [--once CODE | --bare]. With --bare there is no migration and no web.
"""

import sys
from pathlib import Path

from project.embedded import instance
from project.embedded.errors import EmbeddedError
from project.embedded.layout import Layout
from project.embedded.programs import Plan, Program
from project.management.commands.up import choose_port

WEB = Path(__file__).with_name("small_web.py")
NOTE = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS note (at timestamptz DEFAULT now())")
    connection.execute("INSERT INTO note DEFAULT VALUES")
"""


def make_plan():
    if "--bare" in sys.argv:
        return Plan(url="http://nowhere", programs=(Program("idle", ("sleep", "1000")),))
    port = choose_port("127.0.0.1", int(sys.argv[2]))
    code = sys.argv[4] if "--once" in sys.argv else "0"
    return Plan(
        url=f"http://127.0.0.1:{port}",
        programs=(
            Program("web", (sys.executable, str(WEB), str(port)), group="web", hands_over=True),
            Program("idle", ("sleep", "1000"), group="models"),
        ),
        ready_url=f"http://127.0.0.1:{port}/readyz",
        prepare=(sys.executable, "-c", NOTE),
        demo=(sys.executable, "-c", f"print('{{\"result\": 1}}'); raise SystemExit({code})"),
    )


def say(message):
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def announce(url):
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        instance.WATCH_SECONDS, instance.LOOK_SECONDS, instance.ORPHAN_TERM_SECONDS = 0.1, 0.5, 0.5
        code, result = instance.run_instance(
            Layout(Path(sys.argv[1])), make_plan, say, once="--once" in sys.argv, announce=announce
        )
    except EmbeddedError as error:
        say(str(error))
        sys.exit(error.exit_code)
    sys.stdout.write(result)
    sys.exit(code)

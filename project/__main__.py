"""Django's command line, called by `manage.py` and `reckoner`."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from django.conf import settings
    from django.core.management import execute_from_command_line

    from project.environment import InvalidSetting

    try:
        execute_from_command_line(sys.argv)
    except (InvalidSetting, OSError) as error:
        # Of a command's own faults its class tells (workspaces.commands); these come before any is loaded.
        if settings.configured or "--traceback" in sys.argv:
            raise
        sys.stderr.write(f"Reckoner cannot start with these settings: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()

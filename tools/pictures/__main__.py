"""`python -m tools.pictures [--loop]`: draws the picture of the loop and takes the README's screenshots.

A program beside what it makes, and no management command: an instance never needs it, and it needs the tests' scene.
`--loop` draws only the loop, without a database and without a browser.
"""

from __future__ import annotations

import argparse
import sys

from tools.pictures.loop import draw_loop
from tools.pictures.screens import FOLDER, take_screens


def main() -> int:
    """Exit code 0; writes into docs/pictures and says what."""
    arguments = argparse.ArgumentParser(prog="python -m tools.pictures", description=__doc__)
    arguments.add_argument("--loop", action="store_true", help="only the picture of the loop")
    only_loop = arguments.parse_args().loop
    written = [FOLDER / "loop.svg"]
    written[0].write_text(draw_loop(), encoding="utf-8")
    if not only_loop:
        written += take_screens()
    for path in written:
        sys.stdout.write(f"{path.name}  {path.stat().st_size / 1000:.0f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

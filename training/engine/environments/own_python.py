"""Interpreters of other environments: for packages that cannot stand beside ours. The operator names one by a variable.

What is missing is said in full, with the command that brings it. No torch.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

PROBE = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps({"version": list(sys.version_info[:2]), "packages": found}))
"""


class OwnPython(NamedTuple):
    """`variable` holds the interpreter's path; it is to be of `least` or newer, and have the `packages`, which
    `install` is given to pip for."""

    variable: str
    least: tuple[int, int]
    packages: tuple[str, ...]
    install: str

    @property
    def path(self) -> str:
        return os.environ.get(self.variable, "")

    def find_missing(self) -> list[str]:
        """What keeps it from being used."""
        least = ".".join(map(str, self.least))
        if not self.path:
            make = f"python{least} -m venv FOLDER && FOLDER/bin/pip install {self.install}"
            return [
                f"{self.variable} is not set: give the path of a Python {least} or newer that has "
                f"{' and '.join(self.packages)}, such as FOLDER/bin/python after {make}"
            ]
        if not (Path(self.path).is_file() and os.access(self.path, os.X_OK)):
            return [f"{self.variable}: {self.path} is not a program"]
        try:
            told = subprocess.run(  # noqa: S603 - the interpreter that the operator named
                [self.path, "-c", PROBE, *self.packages], capture_output=True, timeout=60, check=True
            ).stdout
            version, packages = (json.loads(told)[name] for name in ("version", "packages"))
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            return [f"{self.variable}: {self.path} is not a Python interpreter: {error}"]
        if tuple(version) < self.least:
            return [f"{self.variable}: {self.path} is Python {version[0]}.{version[1]}; {least} or newer is needed"]
        lacks = [name for name in self.packages if packages.get(name) is None]
        install = f"{self.path} -m pip install {self.install}"
        return [f"{self.variable}: {self.path} has no {' and no '.join(lacks)}: run {install}"] if lacks else []

"""The programs that the sandbox needs are found where they are installed: else its other tests would skip."""

from __future__ import annotations

import os
import shutil

import pytest

from sandbox.machine import find_machine


@pytest.mark.skipif(
    not all(map(shutil.which, ("bwrap", "prlimit", "bash"))), reason="bwrap, prlimit or bash is not installed"
)
def test_what_is_installed_is_found() -> None:
    machine = find_machine.__wrapped__()
    for program in (machine.bubblewrap, machine.prlimit, machine.python, machine.shell):
        assert os.access(program, os.X_OK), program

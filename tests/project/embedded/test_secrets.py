"""Secrets: made once whoever comes first, kept private, overridden by the environment."""

import stat
import subprocess
import sys

import pytest

from project.embedded.errors import EmbeddedError
from project.embedded.layout import PROJECT_ROOT
from project.embedded.secrets import load_secret


def test_made_once_with_mode_0600(tmp_path):
    first = load_secret("secret_key", "NO_SUCH_VARIABLE", tmp_path)
    assert load_secret("secret_key", "NO_SUCH_VARIABLE", tmp_path) == first
    assert load_secret("api_key_pepper", "NO_SUCH_VARIABLE", tmp_path) != first
    assert len(first) == 64
    path = tmp_path / "secrets" / "secret_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(found.name for found in path.parent.iterdir()) == ["api_key_pepper", "secret_key"]


def test_the_environment_goes_first_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RECKONER_SECRET_KEY", "given")
    assert load_secret("secret_key", "RECKONER_SECRET_KEY", tmp_path) == "given"
    assert list(tmp_path.iterdir()) == []


def test_lives_in_reckoner_var(tmp_path, monkeypatch):
    monkeypatch.setenv("RECKONER_VAR", str(tmp_path))
    secret = load_secret("secret_key", "NO_SUCH_VARIABLE")
    assert (tmp_path / "secrets" / "secret_key").read_text() == secret


def test_processes_that_start_at_once_agree(tmp_path):
    code = "import sys; from project.embedded.secrets import load_secret; print(load_secret('k', 'NONE'), end='')"
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=PROJECT_ROOT, env={"RECKONER_VAR": str(tmp_path)}, stdout=subprocess.PIPE
        )
        for _ in range(6)
    ]
    assert len({process.communicate()[0] for process in starts}) == 1


@pytest.mark.parametrize("name", ["../x", "A", "", "a b"])
def test_names_that_are_no_plain_words_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="lower-case"):
        load_secret(name, "NO_SUCH_VARIABLE", tmp_path)


def test_an_empty_secret_is_refused(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "k").write_text("")
    with pytest.raises(EmbeddedError, match="is empty"):
        load_secret("k", "NO_SUCH_VARIABLE", tmp_path)

"""Paths, ports and the supervisor's configuration, without starting anything."""

import configparser
import os
import shlex
import socket
from functools import partial

import pytest

from project.embedded.errors import EmbeddedError, PortTakenError
from project.embedded.layout import SOCKET_PATH_BYTES, Layout, locate_var, make_private
from project.embedded.programs import Program, plan_instance, render_config
from project.embedded.valkey import PORTS, pick_port
from project.management.commands.up import choose_port


def test_sockets_lie_in_var_unless_its_path_is_too_long_for_one(tmp_path):
    short, long = Layout(tmp_path), Layout(tmp_path / ("x" * 100))
    if len(str(tmp_path)) < 50:
        assert short.locate_sockets("postgres") == tmp_path / "run" / "postgres"
    found = long.locate_sockets("postgres")
    assert len(os.fsencode(found / ".s.PGSQL.5432.lock")) <= SOCKET_PATH_BYTES
    assert found != Layout(tmp_path / ("y" * 100)).locate_sockets("postgres")
    assert found == long.locate_sockets("postgres")


def test_what_holds_data_is_the_owners_alone_also_where_it_was_open_before(tmp_path):
    (tmp_path / "log").mkdir(mode=0o755)
    Layout(tmp_path).create()
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir() if path.name != "run"}
    assert modes == dict.fromkeys(("log", "valkey", "secrets", "artifacts", "runs"), 0)


def test_var_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RECKONER_VAR", str(tmp_path / "a" / ".." / "b"))
    assert locate_var() == (tmp_path / "b").resolve()


def test_a_private_directory_is_nobody_elses(tmp_path):
    directory = tmp_path / "sockets"
    make_private(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    link = tmp_path / "link"
    link.symlink_to(directory)
    with pytest.raises((EmbeddedError, FileExistsError)):
        make_private(link)


def test_a_port_is_remembered_until_somebody_takes_it(tmp_path):
    memory = tmp_path / "port"
    port = pick_port(memory)
    assert port in PORTS
    assert pick_port(memory) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert pick_port(memory) != port


def test_a_port_asked_for_is_taken_or_refused_and_the_default_moves_on():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=str(port)):
            choose_port("127.0.0.1", port)
        assert choose_port("127.0.0.1", None, port) > port


def test_the_configuration_keeps_every_word_of_a_command_line(tmp_path):
    words = ("/bin/echo", "a b", "100%", "it's", "--x=%(here)s")
    text = render_config(Layout(tmp_path), tmp_path / "s", [Program("echo", words, directory=tmp_path)])
    parsed = configparser.ConfigParser()
    parsed.read_string(text)
    assert tuple(shlex.split(parsed["program:echo"]["command"])) == words
    with pytest.raises(ValueError, match="cannot hold"):
        render_config(Layout(tmp_path), tmp_path / "s", [Program("bad", ("a", "b\nc"))])


def test_the_plan_leaves_out_what_is_given_or_not_wanted(tmp_path, monkeypatch):
    monkeypatch.delenv("RECKONER_STATIC_FINDERS", raising=False)
    plan = partial(plan_instance, Layout(tmp_path), port=8000, gateway_port=8020)
    full = plan(host="0.0.0.0", model_port=8100, with_demo=True, once=True)
    names = [program.name for program in full.programs]
    assert names == ["web", "gateway", "worker", "trainer", "exporter", "beat", "modelserver"]
    assert (full.ready_url, full.gateway_url) == ("http://127.0.0.1:8000/readyz", "http://127.0.0.1:8020")
    assert full.demo[-3:] == ("demo", "wait", "--json")
    bare = plan(host="::1", model_port=None, with_demo=False, once=False)
    assert [program.name for program in bare.programs] == names[:-1]
    assert bare.url == "http://[::1]:8000"
    assert "[::1]:8000" in bare.programs[0].command
    assert bare.demo is None and bare.prepare[-1] == "--no-demo"
    assert bare.environment == {"RECKONER_STATIC_FINDERS": "0"} and "collectstatic" in bare.collect
    monkeypatch.setenv("RECKONER_STATIC_FINDERS", "1")
    own = plan(host="::1", model_port=None, with_demo=False, once=False)
    assert own.environment == {} and own.collect is None

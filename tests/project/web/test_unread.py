"""Bodies that wait for their rest, of many connections together."""

from types import SimpleNamespace

from waitress.adjustments import Adjustments
from waitress.buffers import OverflowableBuffer
from waitress.receiver import FixedStreamReceiver

from project.web import connections, unread
from project.web.connections import Channel, Server
from project.web.unread import Begun, choose_to_cut


def test_the_oldest_of_the_address_that_holds_most_gives_up_its_body():
    begun = {
        "a1": Begun("a", 1.0, 40),
        "b1": Begun("b", 0.0, 10),
        "a2": Begun("a", 3.0, 40),
        "a3": Begun("a", 2.0, 40),
        "c1": Begun("c", 0.0, 30),
    }
    assert choose_to_cut(begun, 160) == []
    assert choose_to_cut(begun, 159) == ["a1"]
    assert choose_to_cut(begun, 90) == ["a1", "a3"]
    assert choose_to_cut(begun, 0) == ["a1", "a3", "a2", "c1", "b1"]


def test_a_server_cuts_what_it_holds_too_much_of(monkeypatch):
    monkeypatch.setattr(connections, "choose_to_cut", lambda begun: choose_to_cut(begun, 100))
    cut = []

    def channel(at: int, size: int) -> Channel:
        made = object.__new__(Channel)
        body = FixedStreamReceiver(1000, OverflowableBuffer(1 << 20))
        body.received(b"x" * size)
        made.addr, made.creation_time, made.last_activity = ("192.0.2.1", 1), float(at), float(at)
        made.requests, made.total_outbufs_len = [], 0
        made.request = SimpleNamespace(body_rcv=body) if size else None
        made.cut = lambda event: cut.append((at, event))
        return made

    server = object.__new__(Server)
    server.adj = Adjustments(channel_timeout=120, listen="127.0.0.1:0")
    server.active_channels = {at: channel(at, size) for at, size in enumerate((0, 60, 60, 30))}
    server.maintenance(0.0)
    assert cut == [(1, "cut off a body that waited for its rest")]
    assert unread.MOST_UNREAD == 1 << 30

"""Requests and replies survive the connection, and anything else is refused."""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import replace
from threading import Thread

import pytest

from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import Reply, Request, fitting, from_frames, to_frames
from pv4fad.deployment.station_socket import call, open_socket, receive_frames, send_frames
from pv4fad.errors import StoreError, WireError

FRAGMENTS = tuple(
    Fragment("bank-a", "bank-b", "f", "e", part, 2, bytes([part]) * 3) for part in (0, 1)
)
REQUEST = Request("session", True, "resume", 3, 7, FRAGMENTS)
REPLY = Reply("bank-a", "station", "session", 7, 4, "busy", "", "match", 5, FRAGMENTS)


@pytest.mark.parametrize("what", [REQUEST, REPLY], ids=["request", "reply"])
def test_frames_give_back_what_was_sent(what):
    assert from_frames(to_frames(what), type(what)) == what


def test_a_request_carries_as_many_fragments_as_fit_and_at_least_one(monkeypatch):
    monkeypatch.setattr("pv4fad.deployment.exchange.EXCHANGE_BYTES", 7)
    assert fitting(FRAGMENTS * 3) == FRAGMENTS  # of three bytes each
    monkeypatch.setattr("pv4fad.deployment.exchange.EXCHANGE_BYTES", 2)
    assert fitting(FRAGMENTS) == FRAGMENTS[:1]
    assert fitting(()) == ()


def changed(**entries):
    frames = to_frames(REQUEST)
    return [json.dumps(json.loads(frames[0]) | entries).encode(), *frames[1:]]


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"not JSON"],
        [b"[]"],
        to_frames(REPLY),
        to_frames(REQUEST)[:-1],
        changed(version=2),
        changed(surprise=1),
        changed(fragments=[[1, 2, 3, 4, 5, 6]] * 2),
        changed(fragments=[["a"]] * 2),
    ],
    ids=["none", "text", "list", "reply", "short", "version", "entry", "types", "lengths"],
)
def test_anything_else_is_refused(frames):
    with pytest.raises(WireError):
        from_frames(frames, Request)


def test_a_socket_carries_frames_and_notices_when_they_end_early():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = [b"", b"x" * 100_000, b"end"]
        sender = Thread(target=send_frames, args=(ours, frames))
        sender.start()
        assert receive_frames(theirs) == frames
        sender.join()
        ours.sendall(struct.pack("<Q", 1) + struct.pack("<Q", 10) + b"short")
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(WireError, match="in the middle of an exchange"):
            receive_frames(theirs)


def test_a_frame_that_claims_to_be_huge_is_refused_before_it_is_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(struct.pack("<Q", 1) + struct.pack("<Q", 2**40))
        with pytest.raises(WireError, match="more than an exchange has"):
            receive_frames(theirs)


def test_a_station_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match="does not answer"):
        call(tmp_path / "missing", [b""])


def test_a_station_answers_requests_at_its_socket_and_drops_anything_else(caplog):
    with open_socket(lambda request: replace(REPLY, session=request.session)) as path:
        assert from_frames(call(path, to_frames(REQUEST)), Reply) == REPLY
        with pytest.raises(WireError, match="in the middle of an exchange"):
            call(path, [b"not a request"])
        assert from_frames(call(path, to_frames(REQUEST)), Reply) == REPLY
    assert "a request was lost" in caplog.text

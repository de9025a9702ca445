"""Requests and replies survive the line, and nothing else passes for one."""

from __future__ import annotations

import json
import socket
import struct
from threading import Thread

import pytest

from pv4fad.errors import StoreError, WireError
from pv4fad.flower.envelope import Fragment
from pv4fad.flower.exchange import (
    Reply,
    Request,
    from_frames,
    receive_frames,
    send_frames,
    to_frames,
)
from pv4fad.flower.records import from_record, to_record
from pv4fad.flower.station_socket import call

FRAGMENTS = tuple(
    Fragment("bank-a", "bank-b", "f", "e", part, 2, bytes([part]) * 3) for part in (0, 1)
)
REQUEST = Request("session", True, "resume", 3, 7, FRAGMENTS)
REPLY = Reply("bank-a", "station", "session", 7, 4, "busy", "", "match", 5, FRAGMENTS)


@pytest.mark.parametrize("what", [REQUEST, REPLY], ids=["request", "reply"])
def test_frames_give_back_what_was_sent(what):
    assert from_frames(to_frames(what), type(what)) == what


def test_flower_records_give_back_the_frames_in_order():
    frames = [bytes([n]) * n for n in range(1, 13)]
    assert from_record(to_record(frames)) == frames


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
        call(tmp_path / "nobody", [b""])

"""What relay and stations say survives its way, is sent in turn, and anything else is refused."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.deployment.envelope import PART_BYTES, Fragment
from pv4fad.deployment.exchange import Outbox, Reply, Request, from_bytes, to_bytes
from pv4fad.errors import ProtocolError, WireError


def fragment(number, body=b"abc", sender="bank-a", receiver="bank-b"):
    return Fragment(sender, receiver, "f", "e", number - 1, 9, body, number)


FRAGMENTS = (fragment(1), fragment(2, b"defgh"))
OFFERS = {"bank-b": "00ff"}
REQUEST = Request("session", True, "resume", "order", False, {"bank-b": 3}, OFFERS, FRAGMENTS)
REPLY = Reply(
    "bank-a", "station", "session", {"bank-b": 7}, "busy", "", "match", 5, "ff00", FRAGMENTS
)


@pytest.mark.parametrize("what", [REQUEST, REPLY], ids=["request", "reply"])
def test_bytes_give_back_what_was_sent(what):
    assert from_bytes(to_bytes(what), type(what)) == what


def with_header(**entries):
    data = to_bytes(REQUEST)
    (length,) = struct.unpack_from("<I", data)
    head = json.dumps(json.loads(data[4 : 4 + length]) | entries).encode()
    return struct.pack("<I", len(head)) + head + data[4 + length :]


ENTRY = ["a", "b", "f", "e", 0, 1, 1, 3]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\0",
        struct.pack("<I", 2**31) + b"{}",
        struct.pack("<I", 8) + b"not JSON",
        struct.pack("<I", 2) + b"[]",
        to_bytes(REPLY),
        with_header(offers=["00"]),
        with_header(offers={"bank-b": 1}),
        to_bytes(REQUEST)[:-1],
        to_bytes(REQUEST) + b"x",
        with_header(version=1),
        with_header(surprise=1),
        with_header(acknowledged=[1]),
        with_header(acknowledged={"a": "b"}),
        with_header(session=7),
        with_header(fragments=[[1, 2, 3, 4, 5, 6, 7, 8]] * 2),
        with_header(fragments=[["a"]] * 2),
        with_header(fragments=[[*ENTRY[:-1], -3], [*ENTRY[:-1], 11]]),
        with_header(fragments=[[*ENTRY[:-1], PART_BYTES * 2]]),
        struct.pack("<I", 100_000) + b"[" * 100_000,
    ],
    ids=range(20),
)
def test_anything_else_is_refused(data):
    with pytest.raises(WireError):
        from_bytes(data, Request)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    with pytest.raises(WireError):
        from_bytes(data, Reply)


def test_what_is_not_acknowledged_is_sent_again_after_a_break_and_only_that():
    outbox = Outbox()
    for number in (1, 2, 3):
        assert outbox.put("bank-b", fragment(number))
    assert [part.number for part in outbox.next(100)] == [1, 2, 3]
    assert outbox.next(100) == ()
    assert outbox.acknowledge("bank-b", 1)
    outbox.rewind()
    assert [part.number for part in outbox.next(100)] == [2, 3]
    assert outbox.acknowledge("bank-b", 3)
    assert outbox.is_empty
    assert not outbox.acknowledge("bank-b", 3)


def test_a_fragment_is_kept_once_and_none_may_be_left_out():
    outbox = Outbox()
    assert outbox.put("bank-b", fragment(1))
    assert not outbox.put("bank-b", fragment(1))
    with pytest.raises(ProtocolError, match="from bank-a to bank-b are missing"):
        outbox.put("bank-b", fragment(3))
    with pytest.raises(ProtocolError, match="was acknowledged and never sent"):
        outbox.acknowledge("bank-b", 2)


def test_a_slow_receiver_holds_up_its_own_way_only():
    outbox = Outbox(window_bytes=6)
    for number in range(1, 6):
        for way in ("slow", "fast"):
            outbox.put(way, fragment(number, receiver=way))
    first = outbox.next(1000)
    assert [part.receiver for part in first] == ["slow", "fast", "slow", "fast"]  # in turn
    assert outbox.next(1000) == ()
    outbox.acknowledge("fast", 2)
    assert [(part.receiver, part.number) for part in outbox.next(1000)] == [
        ("fast", 3),
        ("fast", 4),
    ]
    assert outbox.n_unsent == 4


def test_as_much_is_sent_at_a_time_as_is_asked_for_and_one_fragment_at_least():
    outbox = Outbox()
    for number in range(1, 5):
        outbox.put("bank-b", replace(fragment(number)))
    assert len(outbox.next()) == 1
    assert len(outbox.next(4)) == 2

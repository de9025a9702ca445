"""With worker processes, parties work at the same time; an error or an interrupt ends them all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from threading import Barrier, Lock

import pytest
from tests.kit.waiting import comes_true

from pv4fad.errors import OrderError
from pv4fad.parties import in_process
from pv4fad.parties.in_process import InProcessTransport
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.wire import Address, encode
from pv4fad.workers import WorkerPool

PATIENCE_S = 60


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(1) as pool:
        yield pool


def message(receiver: str, index: int = 0, of: str = "something") -> bytes:
    return encode(Receipt(Address("a", receiver, "run", index=index), of=of))


class Silent:
    """Answers nothing; does what a test wants with each message."""

    def __init__(self, work=lambda data: None):
        self.work = work
        self.got = []

    def handle(self, data: bytes) -> list[bytes]:
        self.got.append(data)
        self.work(data)
        return []


def test_parties_work_at_the_same_time(pool):
    """Each waits until the other works, too."""
    meeting = Barrier(2)
    b, c = (Silent(lambda _: meeting.wait(PATIENCE_S)) for _ in "bc")
    InProcessTransport({"b": b, "c": c}, pool).deliver("a", [message("b"), message("c")])
    assert len(b.got) == len(c.got) == 1


def test_a_party_works_on_one_message_at_a_time_in_the_order_they_were_sent(pool):
    lock = Lock()

    def alone(_):
        assert lock.acquire(blocking=False)
        time.sleep(0.01)
        lock.release()

    b, sent = Silent(alone), [message("b", index) for index in range(10)]
    InProcessTransport({"b": b, "c": Silent()}, pool).deliver("a", [*sent, message("c")])
    assert b.got == sent


def test_large_messages_are_not_worked_on_together(pool, monkeypatch):
    size = len(message("b"))
    monkeypatch.setattr(in_process, "BYTES_AT_ONCE", 2 * size)
    lock, working, most = Lock(), [0], [0]

    def counted(_):
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
        comes_true(lambda: working[0] > 2, patience_s=0.2)
        with lock:
            working[0] -= 1

    parties = {name: Silent(counted) for name in "bcdef"}
    InProcessTransport(parties, pool).deliver("a", [message(name) for name in parties])
    assert most == [2]


def test_a_message_larger_than_all_that_may_be_under_way_is_worked_on_alone(pool, monkeypatch):
    monkeypatch.setattr(in_process, "BYTES_AT_ONCE", 1)
    parties = {name: Silent() for name in "bc"}
    InProcessTransport(parties, pool).deliver("a", [message(name) for name in parties])
    assert all(party.got for party in parties.values())


def touch(path: Path) -> None:
    time.sleep(0.02)
    path.touch()


class Busy:
    """Has a thousand jobs for the workers."""

    def __init__(self, pool: WorkerPool, folder: Path):
        self.pool = pool
        self.folder = folder
        self.ended_with = None

    def handle(self, data: bytes) -> list[bytes]:
        try:
            for _ in self.pool.map(touch, (self.folder / str(i) for i in range(1000))):
                pass
        except BaseException as error:
            self.ended_with = error
            raise
        return []

    def has_begun(self) -> bool:
        return comes_true(lambda: any(self.folder.iterdir()), PATIENCE_S)


def check_nothing_is_left_running(busy: Busy, threads_before: set[threading.Thread]) -> None:
    assert busy.ended_with is not None
    assert set(threading.enumerate()) - threads_before == set()
    done = len(list(busy.folder.iterdir()))
    assert done < 1000
    # The workers are free, and do what is asked of them next.
    assert list(busy.pool.map(abs, [-1])) == [1]
    assert len(list(busy.folder.iterdir())) <= done + 2


def test_when_a_party_fails_the_others_give_up_and_its_error_is_raised(pool, tmp_path):
    list(pool.map(abs, [1]))  # the threads of the pool itself
    before, busy = set(threading.enumerate()), Busy(pool, tmp_path)

    def refuse(_):
        assert busy.has_begun()
        raise OrderError("not now")

    transport = InProcessTransport({"b": busy, "c": Silent(refuse)}, pool)
    with pytest.raises(OrderError, match="c: not now"):
        transport.deliver("a", [message("b"), message("c")])
    check_nothing_is_left_running(busy, before)


def test_an_interrupt_ends_all_parties(pool, tmp_path):
    """Ctrl-C reaches the main thread, wherever it is."""
    list(pool.map(abs, [1]))
    before, busy = set(threading.enumerate()), Busy(pool, tmp_path)

    def interrupt(header, _):
        if header.address.receiver == "c":
            assert busy.has_begun()
            raise KeyboardInterrupt

    transport = InProcessTransport({"b": busy, "c": Silent()}, pool, interrupt)
    with pytest.raises(KeyboardInterrupt):
        transport.deliver("a", [message("b"), message("c")])
    check_nothing_is_left_running(busy, before)

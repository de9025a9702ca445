"""Phases add up, operations are counted as they are done, and what a party uses is its own."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor, generate_keys
from pv4fad.he.ring import share_ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.workers import Usage
from pv4fad.workers.usage import Done
from pv4fad_bench.harness import Complete, MeasuredPool, PartyClock, Stopwatch, UsageByThread
from pv4fad_bench.operations import DECRYPT, ENCRYPT, SANITISE


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when told to; CPU time runs at half its speed."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: now[0] / 2)

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def test_phases_that_are_entered_again_go_on(clock):
    usage = Usage()
    watch = Stopwatch(usage)
    for name, seconds in (("match", 1), ("count", 2), ("match", 4), (None, 8)):
        watch.switch(name)
        clock(seconds)
    watch.switch(None)
    assert {name: phase.wall_s for name, phase in watch.phases.items()} == {"match": 5, "count": 2}
    assert watch.wall_s == 7


def test_cpu_seconds_include_those_of_the_workers(clock):
    usage = Usage()
    watch = Stopwatch(usage)
    watch.switch("match")
    clock(2)
    usage.cpu_s = {101: 3.0, 102: 4.0}
    watch.switch("count")
    usage.cpu_s[101] += 5
    watch.switch(None)
    assert watch.phases["match"].cpu_s == 1 + 7
    assert watch.phases["count"].cpu_s == 5


def test_jobs_are_phases_and_a_tap_can_be_off_the_clock(clock):
    def work(x: int) -> int:
        clock(1)
        return 10 * x

    seen = []

    def tap(job: int, result: int) -> None:
        with pool.stopwatch.paused():
            clock(100)
            seen.append((job, result))

    pool = MeasuredPool(0, {work: "work"}, "between")
    pool.taps = {work: tap}
    pool.stopwatch.switch("between")
    for _ in pool.map(work, [1, 2]):
        clock(5)
    assert list(pool.begin(work, [3])) == [30]
    pool.stopwatch.switch(None)
    assert seen == [(1, 10), (2, 20), (3, 30)]
    assert {n: phase.wall_s for n, phase in pool.stopwatch.phases.items()} == {
        "between": 10,
        "work": 3,
    }


class AtOnce:
    """A party that works while the other works, too: its own CPU seconds and those of a job."""

    def __init__(self, name: str, own_s: float, jobs_s: float, meeting: Barrier, usage: Usage):
        self.name, self._cpu_s, self._meeting, self._usage = name, (own_s, jobs_s), meeting, usage

    def handle(self, data: bytes) -> bytes:
        self._meeting.wait(60)
        own_s, jobs_s = self._cpu_s
        until = time.thread_time() + own_s
        while time.thread_time() < until:
            pass
        self._usage.add(Done(None, "worker", jobs_s, 0))
        self._meeting.wait(60)
        return data


def test_parties_that_work_at_the_same_time_each_have_their_own_cpu_seconds():
    usage, meeting = UsageByThread(), Barrier(2)
    parties = [AtOnce("a", 0.2, 10, meeting, usage), AtOnce("b", 0.0, 1000, meeting, usage)]
    clock = PartyClock(usage)
    with ThreadPoolExecutor(2) as threads:
        for party in parties:
            clock.watch(party, "handle")
        for _ in range(2):
            assert list(threads.map(lambda one: one.handle(b"x"), parties)) == [b"x", b"x"]
    assert 20.4 <= clock.cpu_s["a"] < 30
    assert 2000 <= clock.cpu_s["b"] < 2010
    assert usage.cpu_s == {"worker": 2020}


def test_a_run_ends_before_the_job_that_is_not_wanted():
    pool = MeasuredPool(0)
    pool.end_before = len
    assert list(pool.map(str, [1])) == ["1"]
    with pytest.raises(Complete):
        pool.map(len, ["a"])


def encrypt_and_open(n: int) -> int:
    """n ciphertexts, sanitised and opened."""
    keys = generate_keys(share_ring(65537), "clock", relinearisation=False)
    encryptor, decryptor = SecretEncryptor(keys.secret), Decryptor(keys.secret)
    sanitiser, ring = Sanitiser(keys.public, Flood(2, 2**70)), encryptor.ring
    sent = [sanitiser.sanitise(encryptor.encrypt(np.array([one]))) for one in range(n)]
    return sum(int(decryptor.decrypt(ring.load(one, 1))[0]) for one in sent)


@pytest.mark.parametrize("workers", [0, 2])
def test_he_operations_are_timed_inside_the_jobs(workers):
    """Sanitising adds and switches down: that is part of it, and not counted twice."""
    with MeasuredPool(workers) as pool:
        list(pool.map(encrypt_and_open, [1]))  # the workers have started
        pool.restart_clock()
        pool.stopwatch.switch("both")
        assert list(pool.map(encrypt_and_open, [4, 3, 0])) == [6, 3, 0]
        pool.stopwatch.switch(None)
        counts = {(one.job, one.name): one.count for one in pool.operations}
        assert counts == dict.fromkeys(
            (("encrypt and open", name) for name in (SANITISE, ENCRYPT, DECRYPT)), 7
        )
        seconds = sum(one.total_s for one in pool.operations)
        assert pool.floor_s() == pytest.approx(seconds / max(1, workers))
        assert pool.floor_s("encrypt and open") == pool.floor_s() > pool.floor_s("another") == 0
        assert 0 < pool.floor_s() < pool.stopwatch.wall_s


def refuse(_: int) -> None:
    raise ValueError("no")


def test_the_clock_is_taken_away_again():
    before = Evaluator.add, SecretEncryptor.encrypt
    with pytest.raises(ValueError, match="no"):
        list(MeasuredPool(0).map(refuse, [1]))
    assert (Evaluator.add, SecretEncryptor.encrypt) == before

"""Phases add up, operations are counted as they are done, and what a party uses is its own."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from tests.kit.match_block import N_BINS, matched_block, random_block

from pv4fad.he.keys import Evaluator
from pv4fad.he.polynomial import n_powers
from pv4fad.protocol.match.comparison import N_BITS, N_DIGITS
from pv4fad.workers import Usage
from pv4fad.workers.usage import Done
from pv4fad_bench.harness import Complete, MeasuredPool, PartyClock, Stopwatch, UsageByThread
from pv4fad_bench.operations import (
    COEFFICIENT,
    DECRYPT,
    DIGIT,
    ENCRYPT_POWER,
    GIANT_STEP,
    REMAINDER,
    SANITISE,
    SELECT,
    OperationCounter,
    expected_operations,
)
from pv4fad_bench.paper_workload import PaperWorkload


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


@pytest.mark.parametrize(("n_strips", "degree"), [(1, 13), (1, 12), (5, 13), (12, 25)])
def test_operations_are_counted_as_the_jobs_do_them(monkeypatch, n_strips, degree):
    """Products with plaintexts and of ciphertexts in the steps of one block."""
    done: Counter[str] = Counter()
    for name in ("times_slots", "product", "add_prepared"):
        monkeypatch.setattr(Evaluator, name, counting(name, getattr(Evaluator, name), done))
    rng, n_classes, n_bins = np.random.default_rng(1), 4, N_BINS // n_strips
    block = random_block(rng, rng.poisson(1, n_bins), degree, n_classes)
    matched_block(block, 65537)
    counter = OperationCounter(PaperWorkload(3000, 2500).parameters())
    strips = counter.strips(n_bins)
    counter.values(degree, strips)
    counter.indicators(n_classes, strips)
    for n_digits in (N_DIGITS, N_BITS):
        counter.distances(n_digits, strips)
    counts = counter.counts
    assert counts[COEFFICIENT] + counts[DIGIT] + counts[REMAINDER] == done["times_slots"]
    assert counts[SELECT] == done["add_prepared"] == n_classes**2
    of_products = sum(n for name, n in counts.items() if "relinearise" in name)
    assert of_products + counts[GIANT_STEP] == done["product"]


def counting(name: str, function, done: Counter[str]):
    def counted(*arguments):
        done[name] += 1
        return function(*arguments)

    return counted


def test_expected_operations_follow_from_the_sizes():
    """100,000 accounts on each side: nine blocks, eleven classes."""
    parameters = PaperWorkload(100_000, 100_000).parameters()
    expected = expected_operations(parameters).counts
    (plan,) = parameters.tables
    assert plan.layout.n_blocks == 9
    assert expected[ENCRYPT_POWER] == 9 * n_powers(parameters.largest_load(plan))
    assert expected[SANITISE] == 9 * 11
    assert expected[DECRYPT] == 9 * (4 + 11)

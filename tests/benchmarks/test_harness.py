"""Phases add up, checks are off the clock, and operations are counted as they are done."""

import time

import numpy as np
import pytest

from pv4fad.he.circuits import FEW_ACCOUNTS
from pv4fad.he.keys import PublicKey
from pv4fad.protocol.match.steps import LayersJob, SharedLayer, SharedLayersJob
from pv4fad.workers import Usage
from pv4fad_bench.harness import Complete, MeasuredPool, Stopwatch
from pv4fad_bench.operations import ADD, FINAL_MASK, MASK, OperationCounter, expected_operations
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


def test_jobs_are_phases_and_taps_are_off_the_clock(clock):
    def work(x: int) -> int:
        clock(1)
        return 10 * x

    seen = []

    def tap(job: int, result: int) -> None:
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


def test_a_run_ends_before_the_job_that_is_not_wanted():
    pool = MeasuredPool(0)
    pool.end_before = len
    assert list(pool.map(str, [1])) == ["1"]
    with pytest.raises(Complete):
        pool.map(len, ["a"])


def test_operations_are_counted_as_the_jobs_do_them():
    parameters = PaperWorkload(3000, 2500).parameters()
    counter = OperationCounter(parameters)
    public = PublicKey(parameters.match_ring, b"")
    words = np.zeros((2, 16384), np.uint64)
    words[0, :100] = 0b111
    words[1, :FEW_ACCOUNTS] = (1 << 16) - 1
    atoms = np.full((2, 1, 16384), -1, np.int16)
    atoms[0, 0, :5] = (0, 1, 1, 7, 7)
    atoms[1, 0, :2] = (2, 3)
    counter.sum_layers(LayersJob(public, 52, b"", words, atoms, n_atoms=11, n_shared=1))
    assert counter.counts[MASK] == 3 + FEW_ACCOUNTS
    assert counter.counts[FINAL_MASK] == 3
    assert counter.counts[ADD] == 3 + 16 * FEW_ACCOUNTS + 1
    layers = [SharedLayer(b"", one) for one in atoms]
    counter.sum_shared_layers(SharedLayersJob(public, (tuple(layers),), n_atoms=11))
    assert counter.counts[FINAL_MASK] == 3 + 3 + 2
    products = [n for name, n in counter.counts.items() if "relinearise" in name]
    assert products == [2, 2, 2, 2]


def test_expected_operations_of_a_known_workload():
    """100,000 accounts on each side took 86 to 89 layers and 66 polynomials (9 blocks)."""
    expected = expected_operations(PaperWorkload(100_000, 100_000).parameters()).counts
    assert 80 * 52 < expected[MASK] < 100 * 52
    assert 55 < expected["product, relinearise, switch down (3 primes)"] < 80
    assert expected["encrypt a plane"] == 9 * 52

"""Banks and aggregator cannot tell two worlds apart, unless a mask is missing."""

import numpy as np
import pytest

import pv4fad.protocol.count.steps
import pv4fad.protocol.score.steps
from pv4fad.attack.lab import BANKS, lab_findings, run_world, uniformity
from pv4fad.workers import WorkerPool


def findings(n_runs):
    with WorkerPool(0) as pool:
        return {(one.attacker, one.measure[:5]): one for one in lab_findings(n_runs, pool)}


def test_what_banks_and_aggregator_see_is_within_the_claim():
    found = findings(2)
    assert len(found) == 4
    assert all(one.within_claim for one in found.values())
    assert found["holders", "1 − p"].n > 500_000


def test_without_the_masks_of_queries_a_bank_can_tell(monkeypatch):
    """What it opens is then a multiple of its own shares where something is asked, else 0."""
    monkeypatch.setattr(
        pv4fad.protocol.score.steps, "_fresh", lambda ring, n: np.zeros((n, ring.degree), np.uint64)
    )
    with WorkerPool(0) as pool:
        seen = run_world(is_second=False, pool=pool)
    assert all(uniformity(seen[bank].values) < 1e-6 for bank in BANKS.values())


@pytest.mark.parametrize("n", [100, 100_000])
def test_uniform_values_pass_and_others_do_not(n):
    rng = np.random.default_rng(3)
    assert uniformity(rng.random(n)) > 1e-6
    assert uniformity(rng.random(n) ** 2) < 1e-6

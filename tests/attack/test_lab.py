"""Banks and aggregator cannot tell two worlds apart, unless a mask is missing."""

import numpy as np
import pytest

import pv4fad.protocol.count.steps
import pv4fad.protocol.score.steps
from pv4fad.attack.lab import BANKS, Seen, _about, lab_findings, run_world, uniformity
from pv4fad.workers import WorkerPool


def findings(n_runs):
    with WorkerPool(0) as pool:
        return {(one.attacker, one.measure[:5]): one for one in lab_findings(n_runs, pool)}


def test_what_banks_and_aggregator_see_is_within_the_claim():
    found = findings(2)
    assert len(found) == 6
    assert not [one for one in found.values() if one.within_claim is False]
    for attacker in ("holders", "aggregator"):
        assert found[attacker, "diffe"].within_claim
        assert found[attacker, "1 − p"].within_claim
        assert found[attacker, "right"].within_claim is None  # of a few guesses all can be right
    assert found["holders", "1 − p"].n > 500_000


def test_without_the_masks_of_queries_a_bank_can_tell(monkeypatch):
    """What it opens is then a multiple of its own shares where something is asked, else 0."""
    monkeypatch.setattr(
        pv4fad.protocol.score.steps, "_fresh", lambda ring, n: np.zeros((n, ring.degree), np.uint64)
    )
    with WorkerPool(0) as pool:
        view = run_world(is_second=False, pool=pool)
    assert all(uniformity(view[bank].values) < 1e-6 for bank in BANKS.values())


def seen(*messages):
    return Seen([np.full(16, 0.5)], list(messages))


def test_a_message_that_is_longer_in_one_world_is_found_whoever_comes_first():
    one, two = ("noisy-sums", "bank01", 100), ("noisy-sums", "bank02", 100)
    last = ("receipt", "bank01", 10)
    worlds = [[seen(one, two, last)] * 2, [seen(two, one, last)] * 2]
    assert _about("aggregator", *worlds)[0].within_claim
    longer = seen(one, ("noisy-sums", "bank02", 101), last)
    for other in (longer, seen(one, last), seen(last, one, two)):
        assert _about("aggregator", worlds[0], [worlds[1][0], other])[0].within_claim is False


@pytest.mark.parametrize("n", [100, 100_000])
def test_uniform_values_pass_and_others_do_not(n):
    rng = np.random.default_rng(3)
    assert uniformity(rng.random(n)) > 1e-6
    assert uniformity(rng.random(n) ** 2) < 1e-6

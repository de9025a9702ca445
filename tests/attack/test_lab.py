"""Banks and aggregator cannot tell two worlds apart, unless masks are missing."""

import numpy as np
import pytest
from tests.kit.class_world import make_class_world
from tests.kit.world import make_world

import pv4fad.protocol.count.bank as count_bank
import pv4fad.protocol.count.steps as count_steps
import pv4fad.protocol.score.steps as score_steps
from pv4fad.attack.lab import Seen, about, lab_findings, run_world
from pv4fad.attack.stores import uniformity
from pv4fad.attack.worlds import Like
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.parameters import RunParameters
from pv4fad.workers import WorkerPool


def counts(**options) -> RunParameters:
    return make_class_world(**options).parameters


def findings(parameters, n_runs):
    with WorkerPool(0) as pool:
        every = lab_findings(SCHEMA, parameters, n_runs, pool)
    return {(one.attacker, one.measure[:5]): one for one in every}


def test_what_banks_and_aggregator_see_is_within_the_claim():
    found = findings(counts(), 2)
    assert len(found) == 6
    assert not [one for one in found.values() if one.within_claim is False]
    for attacker in ("holders", "aggregator"):
        assert found[attacker, "diffe"].within_claim
        assert found[attacker, "1 − p"].within_claim
        assert found[attacker, "right"].within_claim is None
        assert "too few to judge" in found[attacker, "right"].note
    assert found["holders", "1 − p"].n > 500_000


def test_without_masks_each_attacker_tells_the_worlds_apart(monkeypatch):
    """What a bank opens is then a multiple of its own shares where something is asked or counted,
    else 0; and what the aggregator adds up is 0 where nothing counts."""

    def zeros(modulus, n):
        return np.zeros(n, np.uint64)

    monkeypatch.setattr(score_steps, "secret_residues", zeros)
    monkeypatch.setattr(count_steps, "secret_residues", zeros)
    monkeypatch.setattr(count_bank, "pairwise_mask", lambda *_, modulus, n: zeros(modulus, n))
    found = findings(counts(), 3)
    for attacker, n in (("holders", 8), ("aggregator", 4)):
        assert found[attacker, "right"].n == n
        assert found[attacker, "right"].found == 1
        assert found[attacker, "1 − p"].within_claim is False


LIKE_RUNS = {
    "coarse, absent is ordinary, a table for all": lambda: counts(
        counted="coarse", absent="ordinary", mode="mixed"
    ),
    "metered": lambda: counts(metered=True, mode="mixed"),
    "released labels": lambda: make_world(model="released").parameters,
    "sealed labels": lambda: make_world(model="sealed").parameters,
}


@pytest.mark.parametrize("like", LIKE_RUNS)
def test_the_worlds_are_like_the_run(like):
    run = LIKE_RUNS[like]()
    of_run = Like(SCHEMA, run)
    first, second = (of_run.world(is_second=one) for one in (False, True))
    for world in (first, second):
        for name in ("mode", "metered", "counted", "absent", "epsilon", "noise"):
            assert getattr(world.parameters, name) == getattr(run, name)
        assert any(plan.broadcast for plan in world.parameters.tables) == of_run.broadcast
    assert first.parameters.sizes == second.parameters.sizes
    assert first.parameters.plain_modulus == second.parameters.plain_modulus


@pytest.mark.parametrize(
    ("like", "sees"),
    [
        ("coarse, absent is ordinary, a table for all", {"score-reply", "score-reply, added up"}),
        ("metered", {"own-part", "metered-reply"}),
    ],
)
def test_answers_that_pass_the_aggregator_are_looked_at(like, sees):
    with WorkerPool(0) as pool:
        views = [
            run_world(Like(SCHEMA, LIKE_RUNS[like]()), is_second=one, pool=pool)
            for one in (False, True)
        ]
    for view in views:
        opened = view["aggregator"].opened
        assert sees <= {kind for kind, values in opened.items() if values}
        assert all(
            uniformity(np.concatenate(values)) > 1e-6 for values in opened.values() if values
        )
    assert views[0]["aggregator"].by_sender == views[1]["aggregator"].by_sender


def seen(*messages, values=(0.5,)):
    return Seen({"noisy-sums": [np.array(values)]}, list(messages))


def test_a_message_that_is_longer_in_one_world_is_found_whoever_comes_first():
    one, two = ("noisy-sums", "bank01", 100), ("noisy-sums", "bank02", 100)
    last = ("receipt", "bank01", 10)
    worlds = [[[seen(one, two, last)]] * 2, [[seen(two, one, last)]] * 2]
    assert about("aggregator", *worlds)[0].within_claim
    longer = seen(one, ("noisy-sums", "bank02", 101), last)
    for other in (longer, seen(one, last), seen(last, one, two)):
        assert about("aggregator", worlds[0], [worlds[1][0], [other]])[0].within_claim is False


@pytest.mark.parametrize(("told", "holds"), [(0.0, True), (0.5, False)])
def test_with_as_many_worlds_as_by_default_the_claim_can_be_refuted(told, holds):
    """`told`: the share of the values that are 0 in the second world."""
    rng = np.random.default_rng(5)

    def world(share):
        return [[seen(values=rng.random(200) * (rng.random(200) >= share))] for _ in range(12)]

    right = about("aggregator", world(0), world(told))[1]
    assert right.n == 20
    assert right.within_claim is holds


@pytest.mark.parametrize("n", [100, 100_000])
def test_uniform_values_pass_and_others_do_not(n):
    rng = np.random.default_rng(3)
    assert uniformity(rng.random(n)) > 1e-6
    assert uniformity(rng.random(n) ** 3) < 1e-6

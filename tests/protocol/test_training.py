"""Private training equals the trusted third party: counts, labels, model, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from tests.kit.world import (
    MODES,
    KnownNoiseBank,
    check_equal_to_the_trusted_third_party,
    make_world,
)

from pv4fad.workers import WorkerPool

# Two banks with a table for each and a broadcast table: `test_views`.  Everything: slow, below.
CASES = [
    (1, "routed", 1, "sealed"),
    (1, "mixed", 2, "released"),
    (2, "routed", 2, "released"),
    (2, "broadcast", 1, "sealed"),
    (5, "routed", 1, "released"),
    (3, "broadcast", 2, "sealed"),
]


@pytest.mark.parametrize(("n_banks", "mode", "n_sets", "model"), CASES)
def test_counts_and_labels_equal_those_of_a_trusted_third_party(n_banks, mode, n_sets, model):
    """Ids at no bank, at a bank that is not asked, at several; institutions that take no part;
    banks that have no account with some of the atoms.  Two banks are asked at a time."""
    world = make_world(
        seed=1, n_banks=n_banks, mode=mode, n_sets=n_sets, model=model, banks_at_once=2
    )
    held = {atom for (bank, _), atom in world.case.records.items() if bank == 0}
    assert len(held) < world.parameters.sizes.n_atoms
    world.train()
    check_equal_to_the_trusted_third_party(world)


def test_worker_processes_give_the_same_model():
    with WorkerPool(2) as pool:
        world = make_world(seed=1, n_banks=1, pool=pool)
        world.train()
    check_equal_to_the_trusted_third_party(world)


def test_tables_of_several_blocks_give_the_same_model():
    """Three blocks of bins in two messages."""
    world = make_world(seed=1, n_banks=1, n_declared=30_000, more_accounts=3000)
    (plan,) = world.parameters.tables
    assert plan.layout.n_blocks == 3
    assert len(world.parameters.match_steps("bank01")) == 2
    world.train()
    check_equal_to_the_trusted_third_party(world)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sealed", "released"])
@pytest.mark.parametrize("n_sets", [1, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_banks", [1, 2, 5])
def test_every_combination_equals_the_trusted_third_party(n_banks, mode, n_sets, model):
    world = make_world(seed=2, n_banks=n_banks, mode=mode, n_sets=n_sets, model=model, n_trees=12)
    world.train()
    check_equal_to_the_trusted_third_party(world)


@pytest.mark.parametrize(
    ("mode", "n_sets", "noise", "model"),
    [("routed", 2, "per-bank", "sealed"), ("broadcast", 1, "distributed", "released")],
)
def test_with_noise_they_equal_his_plus_exactly_that_noise(mode, n_sets, noise, model):
    """Two banks, one of them without a single account.  The noise makes ties and changes signs."""
    world = make_world(
        seed=27,
        mode=mode,
        n_sets=n_sets,
        model=model,
        noise=noise,
        epsilon=Fraction(1),
        honest_banks=2 if noise == "distributed" else 1,
        bank_class=KnownNoiseBank,
        without_accounts=(1,),
        n_trees=8,
    )
    injected = world.inject_noise(np.random.default_rng(20))
    world.train()
    check_equal_to_the_trusted_third_party(world, injected)
    counts = world.oracle.counts(world.pairs)
    noisy = counts[:, :-1] + injected.reshape(len(counts), -1)
    assert ((counts[:, :-1] > 0) & (noisy == 0)).any(), "no tie"
    assert ((counts[:, :-1] > 0) & (noisy < 0)).any(), "no sign changed to minus"
    assert ((counts[:, :-1] <= 0) & (noisy > 0)).any(), "no sign changed to plus"

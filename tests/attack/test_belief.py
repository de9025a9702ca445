"""What the payment network makes of counts, bits and several runs, in the clear."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.class_world import make_class_world

from pv4fad.attack.belief import ABSENT, Belief
from pv4fad.attack.network import Counted, Held, HeldCounts
from pv4fad.evidence.cells import n_cells
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.score.inputs import AskedSet

MILD, SEVERE = (
    next(n for n, one in enumerate(SCHEMA.record.classes) if one in SCHEMA.record.kinds[kind])
    for kind in SCHEMA.record.kind_names
)
# 100 accounts: 10 mild, 5 severe, 5 absent.
CLASSES = np.repeat([0, MILD, SEVERE, ABSENT], [80, 10, 5, 5])
IDS = [b"BANK|%03d" % number for number in range(100)]
SETS = (AskedSet((1,), False), AskedSet((2,), False), AskedSet((), True))
EVERYBODY = "{records}"


def belief() -> Belief:
    return Belief(SCHEMA, dict(zip(IDS, CLASSES.tolist(), strict=True)))


def found(one: Belief, accounts=IDS) -> dict[tuple[str, str], float]:
    shorter = {
        "which {records} are not": "odd",
        "the class of": "class",
        "which {records} no": "absent",
    }
    return {
        (name, each.measure): each
        for each in one.findings({EVERYBODY: accounts})
        for start, name in shorter.items()
        if each.target.startswith(start)
    }


def held(*, cell, counts, **options) -> HeldCounts:
    run = make_class_world(**options).parameters
    n_path = np.bincount(cell, minlength=n_cells(2))
    counted = Counted(tuple(IDS), cell, np.ones(len(IDS), np.int64), n_path)
    every = np.zeros((n_cells(2), run.sizes.n_sets), np.int64)
    every[: len(counts)] = counts
    nothing = np.zeros((0, 0), np.int8)
    return HeldCounts(Held(run, frozenset(IDS), counted, (), nothing, (), every, None, None), every)


def test_without_a_run_it_names_as_many_as_there_are_and_is_right_by_chance():
    results = found(belief())
    assert results["odd", "precision"].n == 20
    assert results["odd", "precision"].guess == pytest.approx(0.2)
    assert results["odd", "share recognised"].guess == pytest.approx(0.2)
    # Hypergeometric: above 11 of 20 once in a million.
    assert results["odd", "precision"].found < 0.6


def test_bits_tell_class_and_presence_of_those_asked_about_and_of_nobody_else():
    one = belief()
    asked = [*range(75, 85), *range(90, 93), *range(95, 98)]
    kinds = {MILD: 0, SEVERE: 1, ABSENT: 2}
    bits = np.zeros((len(asked), 3), np.int8)
    for row, account in enumerate(asked):
        if CLASSES[account]:
            bits[row, kinds[CLASSES[account]]] = 1
    one.add_bits([IDS[k] for k in asked], bits, SETS, "class")
    results = found(one, [IDS[k] for k in asked])
    for name, wanted in (("odd", 11), ("class", 8), ("absent", 3)):
        assert results[name, "share recognised"].found == 1
        assert results[name, "share recognised"].n == wanted
        assert results[name, "precision"].found == 1
    others = [IDS[k] for k in range(100) if k not in asked]
    # 9 of 84 are odd: above 8 right names once in a million.
    assert found(one, others)["odd", "share recognised"].found < 0.9


def test_bits_of_several_runs_are_united():
    """One says not mild, another says not ordinary: with the third that leaves nothing open."""
    one = belief()
    for asked, bit in ((AskedSet((1,), False), 0), (AskedSet((0,), False), 0)):
        one.add_bits(IDS[90:], np.full((10, 1), bit, np.int8), (asked,), "class")
    before = found(one, IDS[90:])
    assert before["odd", "share recognised"].found == 1
    assert before["class", "share recognised"].found < 1
    one.add_bits(IDS[90:95], np.zeros((5, 1), np.int8), (AskedSet((), True),), "class")
    one.add_bits(IDS[95:], np.ones((5, 1), np.int8), (AskedSet((), True),), "class")
    after = found(one, IDS[90:])
    assert after["class", "share recognised"].found == 1
    assert after["absent", "precision"].found == 1


def test_where_absent_passes_for_ordinary_no_bit_tells_presence():
    one = belief()
    odd = np.isin(CLASSES, (MILD, SEVERE))
    one.add_bits(IDS, odd[:, np.newaxis].astype(np.int8), (AskedSet((0, 1), False),), "ordinary")
    results = found(one)
    assert results["class", "share recognised"].found > 0.6  # by chance, most are mild
    # 5 of 85: three right names of five once in 4,000 times, but always the same ones are named.
    assert results["absent", "share recognised"].found < 0.6


@pytest.mark.parametrize("counted", ["fine", "coarse"])
def test_counts_tell_what_the_accounts_of_a_cell_are(counted):
    """All that are not ordinary are in two cells."""
    cell = np.repeat([0, 1, 2], [80, 10, 10])
    fine = [(80, 0, 0), (10, 10, 0), (5, 0, 5)]
    counts = fine if counted == "fine" else [(80,), (0,), (0,)]
    one = belief()
    view = held(cell=cell, counts=counts, counted=counted)
    view.add_to(one)
    results = found(one)
    assert results["odd", "share recognised"].found > 0.9
    assert results["odd", "precision"].found > 0.9
    drowned = belief()
    noisy = view.held.parameters.model_copy(update={"epsilon": "0.01", "noise": "distributed"})
    replace(view, held=replace(view.held, parameters=noisy)).add_to(drowned)
    assert np.abs(drowned.chances()[:, 0] - 0.8).max() < 0.15

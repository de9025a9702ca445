"""Knowledge, the order of kinds, and the threshold."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.evidence_cases import by_kind, knowledge, model

from pv4fad.detection.local_scale import HonestSample, LocalScale
from pv4fad.errors import DataError, ParameterError
from pv4fad.evidence.cells import TrainingPayments, n_cells, n_hit_cells
from pv4fad.evidence.classes import counted_sets, judged_kinds
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.noise import CountNoise
from pv4fad.forest.pairs import AccountIndex


def expected_alerts(one, threshold):
    """The share of calibration rows that alert, each kind with its probability: a loop."""
    own, alerts = one.knowledge, 0.0
    for row in range(len(own.hazard)):
        if own.hazard[row] >= threshold:
            alerts += own.weight[row]
            continue
        for side in (0, 1):
            where = (side, int(own.is_first[row]), own.stratum[row, side])
            reaches = own.hazard[row] + one.hazard[where] >= threshold
            alerts += own.weight[row] * one.share[where][reaches].sum()
    return alerts / own.weight.sum()


@given(st.integers(0, 10_000), st.floats(0.02, 0.5))
@settings(max_examples=30, deadline=None)
def test_the_threshold_gives_the_share_of_alerts(seed, share):
    """Within the weight of one calibration row."""
    one = model(seed)
    largest = one.knowledge.weight.max() / one.knowledge.weight.sum()
    assert expected_alerts(one, one.threshold(share)) == pytest.approx(share, abs=largest)


@given(st.integers(0, 10_000), st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
@settings(max_examples=60, deadline=None)
def test_a_larger_share_never_has_a_higher_threshold(seed, one_share, other):
    one = model(seed)
    small, large = sorted((one_share, other))
    assert one.threshold(small) >= one.threshold(large)


def test_banks_that_find_more_raise_the_threshold():
    one = model(4)
    found = dataclasses.replace(one, share=20 * one.share)
    assert found.threshold(0.05) > one.threshold(0.05)


def test_payments_that_all_look_the_same_do_not_alert():
    one = model(4)
    same = dataclasses.replace(one.knowledge, hazard=np.full(400, 0.001))
    silent = np.full_like(one.log_odds, -np.inf)
    same_model = dataclasses.replace(one, knowledge=same, log_odds=silent)
    assert same_model.threshold(0.002) > 0.001


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_is_above_0_and_at_most_1(share):
    with pytest.raises(ParameterError):
        model(4).threshold(share)


CASES = [(sets, absent) for sets in ("fine", "coarse") for absent in ("class", "ordinary")]


def model_of(own, counts, noise, **options):
    """With all sets counted, and absent a kind."""
    return EvidenceModel.of(own, counts, noise, sets="fine", absent="class", n_kinds=2, **options)


def informative():
    """One stratum: 60 hits; 20,000 other accounts with half a row each in the last quarter."""
    own = knowledge(np.random.default_rng(5))
    rows, kept = np.zeros_like(own.rows), np.zeros_like(own.kept)
    hit, clean = (1 * 2 + 1) * 3, n_hit_cells(2) + 3
    kept[hit], kept[clean] = 60, 20_000
    rows[hit, 1, 1, 0], rows[clean, 1, 1, 0, 0] = (0.5, 1.0), 0.5
    return dataclasses.replace(own, rows=rows, kept=kept), hit, clean


@pytest.mark.parametrize(("sets", "absent"), CASES)
def test_every_class_but_ordinary_gets_the_log_odds_of_its_kind(sets, absent):
    """Of the hits 20 are severe, 8 mild, 12 absent and 20 ordinary; the others are ordinary."""
    own, hit, clean = informative()
    in_hits = {0: 20, 1: 8, 2: 20, 3: 12}
    atoms = (0, 1, 2) if absent == "class" else (1, 2)
    counts = np.zeros((n_cells(2), len(counted_sets(sets, absent, 2))), np.int64)
    for number, one in enumerate(counted_sets(sets, absent, 2)):
        counts[hit, number] = sum(in_hits[atoms[atom]] for atom in one)
        counts[clean, number] = 20_000 if absent == "class" and 0 in one else 0
    found = EvidenceModel.of(own, counts, CountNoise(0.5, 2.0), sets=sets, absent=absent, n_kinds=2)
    table = by_kind(found)[1, 1, 0]
    told = {one for kind in found.kinds for one in kind}
    assert told == {one for kind in judged_kinds(sets, absent, 2) for one in kind}
    assert table[0] == -np.inf
    assert (np.isfinite(table) <= [one in told for one in range(4)]).all()
    assert table[2] > 0
    if sets == "fine":
        assert found.kinds[0] == (2,)  # the most telling one is asked about first
        assert table[2] > table[1]
    silent = np.delete(by_kind(found).reshape(12, 4), (1 * 2 + 1) * 3, axis=0)
    assert np.all(silent == -np.inf)


def test_counts_of_another_shape_are_refused():
    own, *_ = informative()
    with pytest.raises(DataError):
        EvidenceModel.of(
            own,
            np.zeros((n_cells(2), 1), np.int64),
            CountNoise(None),
            sets="fine",
            absent="class",
            n_kinds=2,
        )


def test_knowledge_is_stored_and_found_again():
    own = knowledge(np.random.default_rng(6))
    again = Knowledge.from_arrays(own.to_arrays())
    assert again.scale == own.scale
    for name, array in own.to_arrays().items():
        assert np.array_equal(array, again.to_arrays()[name])


DAMAGE = {
    "missing": lambda arrays: arrays.pop("rows"),
    "extra": lambda arrays: arrays.update(more=np.zeros(1)),
    "of another shape": lambda arrays: arrays.update(kept=arrays["kept"][1:]),
    "rows of another number": lambda arrays: arrays.update(hazard=arrays["hazard"][1:]),
    "a number without shape": lambda arrays: arrays.update(weight=np.float64(1.0)),
    "of another type": lambda arrays: arrays.update(is_first=arrays["hazard"]),
    "no number": lambda arrays: arrays.update(hazard=arrays["hazard"] * np.nan),
    "a scale without end": lambda arrays: arrays.update(scale=np.array([np.inf, 1.0])),
    "a stratum too many": lambda arrays: arrays.update(stratum=arrays["stratum"] + 1),
    "a negative weight": lambda arrays: arrays.update(weight=-arrays["weight"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_knowledge_is_refused(damage):
    arrays = knowledge(np.random.default_rng(6)).to_arrays()
    DAMAGE[damage](arrays)
    with pytest.raises(DataError, match="damaged"):
        Knowledge.from_arrays(arrays)


def test_an_account_that_was_hit_before_is_evidence_without_any_bank():
    """In the last quarter account 0, hit before, gets 20 anomalies of 40; others get none."""
    n = 400
    account = np.stack([np.arange(n) % 20 + 5, np.arange(n) % 4], axis=1)
    labels = np.zeros(n, np.int8)
    labels[account[:, 1] == 0] = np.arange(n // 4) % 2
    index = AccountIndex(account, np.arange(25), np.zeros(25, np.int64))
    payments = TrainingPayments(
        index, labels, np.zeros(n, np.bool_), np.arange(n), np.ones(25, np.bool_)
    )
    sample = HonestSample(LocalScale(), np.arange(n), np.full(n, -5.0, np.float32))
    own, counted = Knowledge.of(payments, sample, 1)
    found = own.history[1, 0, 2, 1]
    assert found == pytest.approx(0.0, abs=0.2)
    assert np.all(own.history[..., 0] == -np.inf)
    assert np.array_equal(own.kept, counted.kept)
    assert len(own.hazard) == n // 4
    of_hit = account[300:, 1] == 0
    assert own.hazard[of_hit].min() > 0.5 > own.hazard[~of_hit].max()


def test_an_order_of_kinds_that_was_settled_before_stays():
    """Answers are kept by it; what is most telling may change with the last digits."""
    own, hit, _ = informative()
    counts = np.zeros((n_cells(2), 3), np.int64)
    counts[hit] = 40, 8, 20

    def model(order=None):
        noise = CountNoise(0.5, 2.0)
        return EvidenceModel.of(
            own, counts, noise, sets="fine", absent="class", n_kinds=2, order=order
        )

    usual = model()
    turned = model(usual.order[::-1])
    assert turned.kinds == usual.kinds[::-1]
    assert np.array_equal(turned.log_odds, usual.log_odds[..., ::-1])
    assert np.array_equal(by_kind(turned), by_kind(usual))
    for damaged in ((0, 1), (0, 1, 1), (0, 1, 3)):
        with pytest.raises(DataError, match="order of the kinds is damaged"):
            model(damaged)

"""The rounds of match: fresh masks everywhere, one encryption for many banks, nothing kept."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from tests.kit.match_block import N_BINS, matched_block, random_block
from tests.kit.recording import Recording, kinds_kept, recorded_run
from tests.kit.uniformity import is_uniform
from tests.kit.views import (
    opened_differences,
    opened_distances,
    opened_indicators,
    opened_values,
    sent_with,
)

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.keys import Evaluator
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    ValueDigits,
)
from pv4fad.protocol.match.state import (
    BinTags,
    ClassMask,
    DifferenceMask,
    DistanceMask,
    OpenedClasses,
    OpenedDifferences,
    OpenedDistances,
    OpenedValues,
    PowersSent,
    SharedPowers,
    ValueMask,
)

OF_NETWORK = (
    BinTags,
    SharedPowers,
    PowersSent,
    OpenedValues,
    OpenedClasses,
    OpenedDistances,
    OpenedDifferences,
)
OF_BANK = (ValueMask, ClassMask, DistanceMask, DifferenceMask)


@pytest.fixture(scope="module")
def run() -> Recording:
    return recorded_run()


def test_nothing_of_a_round_outlives_it(run):
    federation, run_id = run.world.federation, run.world.parameters.run_id
    assert not kinds_kept(federation.payment_network, run_id, OF_NETWORK)
    for bank in federation.banks:
        assert not kinds_kept(bank, run_id, OF_BANK)


def test_a_mask_is_there_until_its_round_and_gone_after(run):
    """r until the digits have come, g until the bits, ρ and g′ until the indicators are made."""
    for kind, masks in (
        (ValueDigits, (ValueMask,)),
        (RemainderBits, (DistanceMask,)),
        (IndicatorPlanes, (ClassMask, DifferenceMask)),
    ):
        for event in run.of(kind):
            place = f"{event.message.address.table_id}/0"
            for mask in masks:
                name = f"{mask.__name__}/{place}"
                assert any(key.endswith(name) for key in event.before)
                assert not any(key.endswith(name) for key in event.after)


def test_the_banks_of_a_broadcast_table_get_the_same_powers_and_nothing_else_alike(run):
    def sent(kind):
        messages = [event.message for event in run.of(kind)]
        return [one for one in messages if one.address.table_id == "broadcast"]

    first, second = sent(EncryptedTable)
    assert first.address.receiver != second.address.receiver
    assert first.powers == second.powers
    for kind in (ValueDigits, RemainderBits, IndicatorPlanes):
        first, second = sent(kind)
        for name in kind.codecs:
            assert getattr(first, name) != getattr(second, name)


@pytest.mark.parametrize(
    ("kind", "view", "modulus"),
    [
        (MaskedValues, opened_values, TAG_MODULUS),
        (MaskedDistances, opened_distances, 65537),
        (MaskedDifferences, opened_differences, 65537),
        (BlindedIndicators, opened_indicators, None),
    ],
)
def test_no_two_answers_share_a_mask(run, kind, view, modulus):
    """Between banks, tables and rows, also of the broadcast table: all differences are uniform."""
    t = modulus or run.world.parameters.plain_modulus
    rows = [row for event in sent_with(run, kind) for row in view(run, event.answers())[:2]]
    assert len(rows) >= 4
    for first, second in combinations(rows, 2):
        assert is_uniform((first.astype(np.int64) - second.astype(np.int64)) % t, t)


def test_the_masks_that_a_bank_keeps_are_those_that_it_has_used(run):
    """Of all banks, tables and blocks: r is drawn anew for each."""
    masks = [
        run.before(event, ValueMask, event.message.address.table_id, 0).r
        for event in run.of(ValueDigits)
    ]
    assert len(masks) == 4
    for first, second in combinations(masks, 2):
        assert not (first == second).any()
        assert is_uniform(first, TAG_MODULUS)


@pytest.mark.parametrize("n_strips", [1, 8])
def test_a_bank_does_the_same_work_whatever_its_accounts_are(monkeypatch, n_strips):
    """Operations on ciphertexts are counted: no account, a few, or bins as full as planned for."""
    done: Counter[str] = Counter()
    for name in ("times_slots", "product", "add", "add_slots", "switch_to"):
        monkeypatch.setattr(Evaluator, name, counting(name, getattr(Evaluator, name), done))
    bins, counts = np.arange(N_BINS // n_strips), []
    for loads in (np.zeros(len(bins), int), bins % 2, bins % 13):
        done.clear()
        matched_block(random_block(np.random.default_rng(1), loads, 12, n_classes=2), 65537)
        counts.append(dict(done))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0]["times_slots"] > 40 / n_strips


def counting(name: str, function, done: Counter[str]):
    def counted(*arguments):
        done[name] += 1
        return function(*arguments)

    return counted

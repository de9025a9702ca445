"""Strata, cells and rows per account, against loops over payments."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.evidence.cells import (
    TrainingPayments,
    choose_accounts,
    n_cells,
    n_hit_cells,
    rows_per_account,
)
from pv4fad.evidence.strata import AccountHistory
from pv4fad.forest.pairs import AccountIndex


@st.composite
def training(draw):
    """A few payments between a few accounts; some ids are at two banks."""
    n_keys = draw(st.integers(2, 8))
    bare_of = np.array(draw(st.lists(st.integers(0, 5), min_size=n_keys, max_size=n_keys)))
    bare_of = np.unique(bare_of, return_inverse=True)[1].astype(np.int64)
    n = draw(st.integers(1, 30))
    keys = st.integers(0, n_keys - 1)
    column = st.lists(keys, min_size=n, max_size=n)
    key_of = np.stack([draw(column), draw(column)], axis=1).astype(np.int64)
    bits = st.lists(st.booleans(), min_size=n, max_size=n)
    labels = np.array(draw(bits)).astype(np.int8)
    time = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    inside = np.array(draw(st.lists(st.booleans(), min_size=n_keys, max_size=n_keys)))
    index = AccountIndex(key_of, bare_of, np.zeros(bare_of.max() + 1, np.int64))
    return TrainingPayments(index, labels, np.array(draw(bits)), time, inside)


def stratum_of(others):
    return 0 if others <= 0 else 1 if others <= 3 else 2


def other_counterparties(payments):
    """q of every (account, side), by a loop."""
    met = defaultdict(set)
    for accounts, label in zip(payments.account.tolist(), payments.labels, strict=True):
        for side in (0, 1):
            if label == 0:
                met[accounts[side], side].add(accounts[1 - side])
    return {who: len(others) for who, others in met.items()}


@given(training())
@settings(max_examples=60, deadline=None)
def test_strata_are_the_number_of_other_counterparties(payments):
    history = AccountHistory.of(payments.account, payments.labels, payments.n_accounts)
    q = other_counterparties(payments)
    of_training = history.training_strata(payments.account, payments.labels)
    new = np.concatenate([payments.account, [[-1, 0], [0, -1]]])
    is_first = np.concatenate([payments.is_first, [True, False]])
    of_new = history.strata(new, is_first)
    for row, accounts in enumerate(new.tolist()):
        for side in (0, 1):
            known = q.get((accounts[side], side), 0)
            assert of_new[row, side] == stratum_of(known - (not is_first[row]))
            if row < len(payments.labels):
                expected = stratum_of(known - (payments.labels[row] == 0))
                assert of_training[row, side] == expected


def test_four_others_are_the_last_stratum():
    """By hand: account 0 pays 5 others, one of them twice; account 9 is new."""
    account = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 5], [1, 6]])
    labels = np.array([0, 0, 0, 0, 0, 0, 1], np.int8)
    history = AccountHistory.of(account, labels, 7)
    assert history.counterparties[0].tolist() == [5, 0]
    new = np.array([[0, 6], [0, 1], [-1, 5]])
    found = history.strata(new, np.array([True, False, True]))
    assert found.tolist() == [[2, 0], [2, 0], [0, 1]]
    assert history.hits(new).tolist() == [[False, True], [False, False], [False, False]]


@given(training(), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_every_account_inside_counts_once_and_in_a_cell_of_its_own_pairs(payments, seed):
    counted = choose_accounts(payments, np.random.default_rng(seed))
    history = AccountHistory.of(payments.account, payments.labels, payments.n_accounts)
    strata = history.training_strata(payments.account, payments.labels)
    possible = {0: defaultdict(set), 1: defaultdict(set)}
    for row, keys in enumerate(payments.index.key_of.tolist()):
        for side, key in enumerate(keys):
            if payments.inside[key]:
                first, b = int(payments.is_first[row]), strata[row, side]
                hit, other = (side * 2 + first) * 3 + b, n_hit_cells(2) + side * 3 + b
                label = int(payments.labels[row])
                bare = payments.index.bare_of[key]
                possible[label][bare].add((hit if label else other, key))
    expected = possible[0] | possible[1]  # a hit counts as one
    assert Counter(counted.account.tolist()) == Counter(expected.keys())
    for one in zip(counted.account, counted.cell, counted.key, strict=True):
        account, cell, key = (int(value) for value in one)
        assert (cell, key) in expected[account]
    assert counted.kept.sum() == len(expected)
    assert counted.kept.shape == (n_cells(2),)


def test_chance_decides_which_payment_of_an_account_counts():
    """Account 0 pays 3 times and is paid once: a quarter of the draws are on the other side.

    Of 400 draws 100 ± 8.7; 6.5 deviations either way, a false alarm below 1e-9.
    """
    key_of = np.array([[0, 1], [0, 1], [0, 1], [1, 0]])
    index = AccountIndex(key_of, np.arange(2), np.zeros(2, np.int64))
    labels, first = np.zeros(4, np.int8), np.zeros(4, np.bool_)
    payments = TrainingPayments(index, labels, first, np.arange(4), np.ones(2, np.bool_))
    cells = [choose_accounts(payments, np.random.default_rng(seed)).cell[0] for seed in range(400)]
    received = np.sum(np.array(cells) >= n_hit_cells(2) + 3)
    assert 44 < received < 156


@given(training(), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_accounts_times_rows_per_account_are_all_rows(payments, seed):
    counted = choose_accounts(payments, np.random.default_rng(seed))
    rows = rows_per_account(payments, counted)
    total = np.tensordot(counted.kept, rows, 1)
    pairs = payments.inside[payments.index.key_of].sum(axis=1)
    assert total[..., 1].sum() == pytest.approx(pairs[payments.labels == 1].sum())
    recent = pairs[(payments.labels == 0) & payments.recent].sum()
    assert total[..., 0].sum() == pytest.approx(4 * recent)
    assert payments.recent.sum() == len(pairs) - int(0.75 * len(pairs))
    assert payments.time[payments.recent].min() >= payments.time[~payments.recent].max(initial=0)

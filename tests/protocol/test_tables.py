"""Which account goes into which table, and how little a table's size says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import DataError
from pv4fad.forest.structure import PublicSizes
from pv4fad.hashing.keyed import tree_of
from pv4fad.protocol.tables import (
    BROADCAST,
    assign_tables,
    padded,
    plan_tables,
)

DIRECTORY = {"AAAADEFF": "bank01", "BBBBFRPP": "bank02", "BBBBFRXX": "bank02"}
MEMBERS, OUTSIDERS = tuple(DIRECTORY), ("ZZZZCHZZ", "YYYYATWW")
N_TREES = 4
SIZES = PublicSizes(N_TREES, 1, 1, 1, 11)

bics = st.sampled_from([*MEMBERS, *OUTSIDERS, None])
account_keys = st.lists(
    st.tuples(bics, st.text("ABC123", min_size=1, max_size=4)), unique=True, max_size=30
)


@given(st.integers(0, 10**9))
def test_a_padded_number_is_at_least_the_number_and_at_most_an_eighth_more(n):
    assert n <= padded(n) <= max(1024, 1.125 * n)
    assert padded(padded(n)) == padded(n)
    assert padded(n) <= padded(n + 1)


def test_padded_numbers_are_few():
    """Eight for each doubling: a table's size says no more than that."""
    values = {padded(n) for n in range(100_000)}
    assert len([v for v in values if 2**14 <= v < 2**15]) == 8
    assert len({padded(n) for n in range(1025)}) == 1


@given(account_keys)
def test_every_account_is_in_one_table_under_the_name_it_is_known_by(keys):
    tables = assign_tables(keys, DIRECTORY, N_TREES, broadcast=True)
    assert set(tables) == {"bank01", "bank02", BROADCAST}
    assert sorted(np.concatenate([one.keys for one in tables.values()])) == list(range(len(keys)))
    for name, table in tables.items():
        assert len(table.ids) == len(table.trees) == len(table.keys)
        for number, account in zip(table.keys, table.ids, strict=True):
            bic, bare = keys[number]
            if name == BROADCAST:
                assert bic is None
                assert account == bare.encode()
            else:
                assert DIRECTORY.get(bic, name) == name
                assert account == f"{bic}|{bare}".encode()
        trees = tree_of([keys[number][1].encode() for number in table.keys], N_TREES)
        assert np.array_equal(table.trees, trees)


@given(account_keys)
def test_an_outsider_goes_to_the_same_table_whoever_else_is_there(keys):
    tables = assign_tables(keys, DIRECTORY, N_TREES, broadcast=True)
    for name, table in tables.items():
        for number in table.keys:
            if keys[number][0] in OUTSIDERS:
                alone = assign_tables([keys[number]], DIRECTORY, N_TREES, broadcast=False)
                assert len(alone[name].ids) == 1


def test_outsiders_are_spread_over_the_banks():
    """Of 400 in two tables between 130 and 270 are in the first: else with probability 1e-12."""
    keys = [("ZZZZCHZZ", f"ACC{i}") for i in range(400)]
    tables = assign_tables(keys, DIRECTORY, N_TREES, broadcast=False)
    assert 130 <= len(tables["bank01"].ids) <= 270


def test_an_account_of_an_unknown_bank_needs_the_broadcast_table():
    with pytest.raises(DataError, match="broadcast"):
        assign_tables([(None, "ACC1")], DIRECTORY, N_TREES, broadcast=False)


def test_every_bank_gets_a_table_and_all_get_the_broadcast_table():
    tables = assign_tables([], DIRECTORY, N_TREES, broadcast=True)
    plans = plan_tables(tables, {"bank01": 1, "bank02": 1}, SIZES)
    assert [(plan.table_id, plan.banks, plan.broadcast) for plan in plans] == [
        ("bank01", ("bank01",), False),
        ("bank02", ("bank02",), False),
        (BROADCAST, ("bank01", "bank02"), True),
    ]


def test_the_layout_of_a_table_depends_on_the_padded_number_of_accounts_only():
    few = assign_tables([("AAAADEFF", "A")], DIRECTORY, N_TREES, broadcast=True)
    keys = [("AAAADEFF", f"A{i}") for i in range(900)] + [(None, f"B{i}") for i in range(1000)]
    many = assign_tables(keys, DIRECTORY, N_TREES, broadcast=True)
    banks = {"bank01": 1, "bank02": 1}
    assert plan_tables(few, banks, SIZES) == plan_tables(many, banks, SIZES)


def test_above_a_thousand_accounts_a_table_is_declared_larger_than_it_is():
    banks = {"bank01": 1, "bank02": 1}
    exact, smaller = (
        plan_tables(
            assign_tables(
                [("AAAADEFF", f"A{i}") for i in range(n)], DIRECTORY, N_TREES, broadcast=False
            ),
            banks,
            SIZES,
        )
        for n in (padded(2000), 1921)
    )
    assert exact == smaller
    assert exact[0].layout.n_accounts_declared == padded(2000)


def test_no_repr_shows_an_account():
    tables = assign_tables([("AAAADEFF", "SECRETACCOUNT")], DIRECTORY, N_TREES, broadcast=False)
    assert "SECRETACCOUNT" not in repr(tables)

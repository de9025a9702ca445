"""Payments as a run sees them: who deals for the first time, who is outside, equal tables."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.lead import payments
from pv4fad.lead.payments import fingerprint, first_payments, inside_federation

ROW = st.tuples(st.sampled_from("AB"), st.sampled_from("CD"), st.integers(0, 4), st.integers(0, 5))
COLUMNS = ["OrderingAccount", "BeneficiaryAccount", "UETR", "Timestamp"]


def found(rows):
    return first_payments(pl.DataFrame(rows, schema=COLUMNS, orient="row")).to_list()


def begin(row, rows):
    return min(one[3] for one in rows if one[:3] == row[:3])


@given(st.lists(ROW, min_size=1, max_size=12))
def test_first_is_a_payment_that_none_of_its_pair_precedes(rows):
    expected = [
        not any(one[:2] == row[:2] and one[3] < begin(row, rows) for one in rows) for row in rows
    ]
    assert found(rows) == expected


@given(st.lists(ROW, min_size=1, max_size=12), ROW)
def test_what_comes_at_the_same_time_or_later_changes_nothing(rows, further):
    more = found([*rows, further])
    for row, before, after in zip(rows, found(rows), more, strict=False):
        if further[3] >= begin(row, rows):
            assert before == after


def test_outside_is_who_is_at_an_institution_that_takes_no_part():
    """A bank that is unknown may be any of them."""
    keys = pl.DataFrame({"Bank": ["AAAADEFF", "BBBBDEFF", None], "Account": ["1", "2", "3"]})
    assert inside_federation(keys, {"AAAADEFF": "bank01"}).tolist() == [True, False, True]
    assert inside_federation(keys, {}).tolist() == [False, False, True]


TABLE = pl.DataFrame({"a": ["x", "y", None, "z"], "b": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    "other",
    [
        TABLE.with_columns(b=pl.lit(1)),
        TABLE.rename({"b": "c"}),
        TABLE.select("b", "a"),
        TABLE.reverse(),
        TABLE.head(3),
        TABLE.with_columns(pl.col("a").fill_null("")),
    ],
)
def test_other_values_names_or_orders_have_another_fingerprint(other):
    assert fingerprint(other) != fingerprint(TABLE)


def test_a_fingerprint_is_that_of_the_rows_however_they_are_kept(monkeypatch):
    before = fingerprint(TABLE)
    pieces = pl.concat([TABLE.head(1), TABLE.tail(3)], rechunk=False)
    assert fingerprint(pieces.with_columns(pl.col("a").cast(pl.Categorical))) == before
    monkeypatch.setattr(payments, "_FINGERPRINT_ROWS", 3)
    assert fingerprint(TABLE) == before

"""Which payments are the first between two accounts: like features, from strictly earlier ones."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.runs.payments import first_payments

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

"""Rows as a run sees them: who is outside, and which tables are equal."""

import polars as pl
import pytest

from pv4fad.lead.rows import fingerprint, inside_federation


def test_outside_is_who_is_at_an_institution_that_takes_no_part():
    """A bank that is unknown may be any of them."""
    keys = pl.DataFrame({"Holder": ["AAAADEFF", "BBBBDEFF", None], "Id": ["1", "2", "3"]})
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
        TABLE.with_columns(a=pl.Series(["xy", "", None, "z"])),
        TABLE.with_columns(b=pl.Series([1, 2, None, 4])),
        TABLE.with_columns(b=pl.Series([1.0, 2.0, 3.0, 4.0])),
    ],
)
def test_other_values_names_or_orders_have_another_fingerprint(other):
    assert fingerprint(other) != fingerprint(TABLE)


def test_a_fingerprint_is_that_of_the_rows_however_they_are_kept():
    before = fingerprint(TABLE)
    pieces = pl.concat([TABLE.head(1), TABLE.tail(3)], rechunk=False)
    assert fingerprint(pieces.with_columns(pl.col("a").cast(pl.Categorical))) == before

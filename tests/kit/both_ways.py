"""Rows that arrive in batches, said by the incremental state and by the batch code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pv4fad.lead.known_rows import KnownRows
from pv4fad.lead.rows import NewRows, new_rows
from pv4fad.schema import Schema


def assert_equal_both_ways(
    schema: Schema, training: pl.DataFrame, batches: Sequence[pl.DataFrame]
) -> KnownRows:
    """Every batch, as of its arrival; returns the state after the last."""
    known = KnownRows.of(schema, training)
    for number, batch in enumerate(batches):
        so_far = pl.concat(batches[: number + 1])
        assert_says(known.take(batch), new_rows(schema, so_far, training))
    return known


def assert_says(found: NewRows, expected: NewRows) -> None:
    """The same about the last rows, bit for bit."""
    last = slice(len(expected) - len(found), None)
    assert found.ids.to_list() == expected.ids.to_list()[last]
    assert found.features.names == expected.features.names
    values = expected.features.values[last]
    assert found.features.values.dtype == values.dtype
    differ = np.flatnonzero((found.features.values.view(np.int32) != values.view(np.int32)).any(0))
    assert [found.features.names[column] for column in differ] == []
    np.testing.assert_array_equal(found.is_first, expected.is_first[last])
    np.testing.assert_array_equal(found.stratum, expected.stratum[last])
    np.testing.assert_array_equal(found.hit, expected.hit[last])
    assert accounts(found) == accounts(expected)[last]


def accounts(rows: NewRows) -> list[list[tuple[str | None, str]]]:
    """(bank, id) of every side of every row."""
    return [[rows.keys[key] for key in of_row] for of_row in rows.key_of.tolist()]

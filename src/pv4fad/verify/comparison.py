"""What a comparison with a trusted third party consists of: a plain join, and equal values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSchema
from pv4fad.forest.records import record_atoms
from pv4fad.lead.bank_files import applied_slots


@dataclass(frozen=True)
class Comparison:
    """How many of some values are equal to the trusted third party's."""

    what: str
    equal: int
    total: int

    @property
    def all_equal(self) -> bool:
        return self.equal == self.total

    @classmethod
    def of(cls, what: str, ours: NDArray[np.integer], theirs: NDArray[np.integer]) -> Comparison:
        return cls(what, int((ours == theirs).sum()), theirs.size)


def joined_atoms(
    keys: pl.DataFrame, accounts: Mapping[str, pl.DataFrame], schema: AtomSchema
) -> NDArray[np.int64]:
    """The atoms of the record that each account key finds: a plain join; -1 where there is none.

    `keys`: Bank, Account; row k is account key k.
    """
    everybody = pl.concat(
        frame.select(pl.col("Bank").cast(pl.String), "Account") for frame in accounts.values()
    )
    atoms = np.concatenate(
        [record_atoms(schema, frame, applied_slots(frame)) for frame in accounts.values()]
    )
    rows = everybody.with_row_index("row")
    routed = keys.join(rows, on=["Bank", "Account"], how="left", maintain_order="left")["row"]
    # An account whose bank is unknown is found by its id alone, which is then unique.
    anywhere = keys.join(rows.unique("Account"), on="Account", how="left", maintain_order="left")[
        "row"
    ]
    row = pl.select(pl.when(keys["Bank"].is_null()).then(anywhere).otherwise(routed)).to_series()
    with_absent = np.concatenate([atoms, np.full((1, atoms.shape[1]), -1, np.int64)])
    found: NDArray[np.int64] = with_absent[row.cast(pl.Int64).fill_null(-1).to_numpy()]
    return found

"""What a comparison with a trusted third party consists of: a plain join, and equal values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.schema import Absent, Schema


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


def joined_classes(keys: pl.DataFrame, records: Mapping[str, pl.DataFrame]) -> NDArray[np.int64]:
    """The class of the record that each account key finds: a plain join; -1 where there is none.

    `keys`: Holder, Id; row k is account key k.  `records`: of each bank, Holder, Id, Class.
    """
    everybody = pl.concat(
        frame.select("Holder", "Id", pl.col("Class").to_physical().cast(pl.Int64))
        for frame in records.values()
    )
    names = ["Holder", "Id"]
    routed = keys.join(everybody, on=names, how="left", maintain_order="left")["Class"]
    # An account whose bank is unknown is found by its id alone, which is then unique.
    by_id = everybody.unique("Id").drop("Holder")
    anywhere = keys.join(by_id, on="Id", how="left", maintain_order="left")["Class"]
    found = pl.select(pl.when(keys["Holder"].is_null()).then(anywhere).otherwise(routed))
    return found.to_series().fill_null(-1).to_numpy()


def joined_atoms(
    schema: Schema,
    keys: pl.DataFrame,
    records: Mapping[str, pl.DataFrame],
    absent: Absent | None,
) -> NDArray[np.int64]:
    """The same as atoms of a run: kinds, or classes where `absent` is None."""
    atom_of = np.array([*schema.atom_of_class(absent), -1])  # the last: no record
    return atom_of[joined_classes(keys, records)]

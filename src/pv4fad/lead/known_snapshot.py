"""What the lead knows of its rows (`known_rows`) at a moment, at rest.

A snapshot is arrays that do not change any more, so one thread can store it while another goes on
taking rows.  It has some 400 MB for a million payments: give it a store of its own, in which
nothing else waits for it.  A damaged one is refused by the store, which seals every part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record, Records
from pv4fad.tables.incremental.at_rest import Arrays


@dataclass(frozen=True)
class KnownArrays(Record):
    """Which arrays there are, and whose."""

    names: tuple[str, ...]
    schema_digest: str
    training: str
    n_rows: int


@dataclass(frozen=True)
class KnownArray(Record):
    """One of them, by its number."""

    dtype: str
    shape: tuple[int, ...]
    raw: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True)
class Snapshot:
    """All that `KnownRows` goes on from."""

    schema_digest: str
    training: str
    """Fingerprint of the training rows."""
    n_rows: int
    """Those of training included."""
    arrays: Arrays = field(repr=False)

    def store(self, records: Records) -> None:
        """In place of the one that was stored before."""
        records.delete(KnownArray)
        for number, array in enumerate(self.arrays.values()):
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            records.put(KnownArray(array.dtype.str, array.shape, raw), number)
        names = tuple(self.arrays)
        records.put(KnownArrays(names, self.schema_digest, self.training, self.n_rows))

    @classmethod
    def stored(cls, records: Records) -> Self | None:
        """None if none was stored."""
        kept = records.find(KnownArrays)
        if kept is None:
            return None
        arrays: dict[str, NDArray[Any]] = {}
        for number, name in enumerate(kept.names):
            one = records.get(KnownArray, number)
            arrays[name] = one.raw.view(one.dtype).reshape(one.shape)
        return cls(kept.schema_digest, kept.training, kept.n_rows, arrays)

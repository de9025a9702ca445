"""What the payment network keeps of match; a bank keeps nothing but its keys."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record


@dataclass(frozen=True)
class PlacedTable(Record):
    """The accounts of a table in their bins; one for each table."""

    words: NDArray[np.uint64] = field(repr=False)  # the codeword of each bin, 0 if it is empty
    bins: NDArray[np.int64] = field(repr=False)  # of each account
    keys: NDArray[np.int64] = field(repr=False)  # the number of each account among the keys
    ids: bytes = field(repr=False)  # of each account as it is hashed; one line each

    def account_ids(self) -> list[bytes]:
        # Ids are canonical: there is no white space in them.
        return self.ids.split(b"\n") if self.ids else []


@dataclass(frozen=True)
class OpenedBlock(Record):
    """u_k of a block, (atoms, bins); one for each bank, table and block."""

    u: NDArray[np.uint32] = field(repr=False)


@dataclass(frozen=True)
class BankShares(Record):
    """E_j[s_k] of a block, back to back; one for each bank, table and block."""

    data: bytes = field(repr=False)


@dataclass(frozen=True)
class MatchesInForce(Record):
    """The matches whose tables are asked about: the one with all accounts, then the delta."""

    epochs: tuple[int, ...]


@dataclass(frozen=True)
class MatchKind(Record):
    """Whether a match after training makes the join anew, or adds a delta to it."""

    replaces: bool

"""What the parties keep of match; what it is needed for no longer is deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record

# The payment network.


@dataclass(frozen=True)
class PlacedTable(Record):
    """The accounts of a table in their bins; one for each table."""

    bins: NDArray[np.int64] = field(repr=False)  # of each account
    keys: NDArray[np.int64] = field(repr=False)  # the number of each account among the keys
    ids: bytes = field(repr=False)  # of each account as it is hashed; one line each

    def account_ids(self) -> list[bytes]:
        # Ids are canonical: there is no white space in them.
        return self.ids.split(b"\n") if self.ids else []


@dataclass(frozen=True)
class BinTags(Record):
    """x of every bin of a table, until its powers are encrypted; one for each table."""

    tags: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class SharedPowers(Record):
    """The powers of some blocks, until all banks of the table have them; for each message."""

    powers: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class PowersSent(Record):
    """How many banks have been sent the powers of some blocks; one for each message."""

    n_banks: int


@dataclass(frozen=True)
class OpenedValues(Record):
    """v of a block, until its distances are opened; one for each bank, table and block."""

    values: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class OpenedClasses(Record):
    """(L(x) + ρ) mod 32 of a block, until it is sent; one for each bank, table and block."""

    classes: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True)
class OpenedDistances(Record):
    """(h + g) mod 482 of a block, until its differences are opened; one for each bank, table and
    block."""

    remainders: NDArray[np.uint16] = field(repr=False)


@dataclass(frozen=True)
class OpenedDifferences(Record):
    """(h′ + g′) mod 11 of a block, until it is sent; one for each bank, table and block."""

    remainders: NDArray[np.uint8] = field(repr=False)


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


# A bank.


@dataclass(frozen=True)
class ValueMask(Record):
    """r of a block, until the digits of v have come; one for each table and block."""

    r: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class ClassMask(Record):
    """ρ mod 32 of a block, until its indicators are made; one for each table and block."""

    rho: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True)
class DistanceMask(Record):
    """g mod 482 of a block, until the bits of h + g have come; one for each table and block."""

    remainders: NDArray[np.uint16] = field(repr=False)


@dataclass(frozen=True)
class DifferenceMask(Record):
    """g′ mod 11 of a block, until its indicators are made; one for each table and block."""

    remainders: NDArray[np.uint8] = field(repr=False)

"""What the parties keep of score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.store.records import Record

# The payment network, with the match that a table or key belongs to.


@dataclass(frozen=True)
class SetMasks(Record):
    """n_c of a block, (sets, N); one for each bank, table and block."""

    n: NDArray[np.uint32] = field(repr=False)


@dataclass(frozen=True)
class SetSharesKept(Record):
    """A bank has opened the shares of a table's sets; one for each bank and table."""


@dataclass(frozen=True)
class EncryptedLabelShares(Record):
    """E_j[b] of some leaves, back to back; one for each bank and message."""

    data: bytes = field(repr=False)


@dataclass(frozen=True)
class LabelSharesKept(Record):
    """All label shares of a bank are in; one for each bank."""


@dataclass(frozen=True)
class KnownBits(Record):
    """Bits about accounts, (accounts, sets), kept with the match of all accounts."""

    ids: bytes = field(repr=False)  # of each account as it is hashed; one line each
    bits: NDArray[np.int8] = field(repr=False)


# The payment network, with a batch.


@dataclass(frozen=True)
class BatchPlan(Record):
    """What a batch asks for."""

    tables: tuple[str, ...]
    n_layers: int
    n_messages: int
    without_set_shares: tuple[tuple[str, str], ...]  # bank and table, when the batch began
    without_labels: tuple[str, ...]  # banks, when the batch began
    sets: tuple[AskedSet, ...] = field(default=(), repr=False)  # of a round
    n_transactions: int = 0  # of a batch of votes


@dataclass(frozen=True)
class Questions(Record):
    """The place of each account asked about in a round, and the set that is asked about."""

    table: NDArray[np.int64] = field(repr=False)  # number in the list of tables
    bin: NDArray[np.int64] = field(repr=False)
    set: NDArray[np.int64] = field(repr=False)  # number in the list of sets


@dataclass(frozen=True)
class Slots(Record):
    """Where each transaction side that asks a bank has its place; arrays of equal length."""

    transaction: NDArray[np.int64] = field(repr=False)
    side: NDArray[np.int8] = field(repr=False)
    table: NDArray[np.int64] = field(repr=False)  # number in the list of tables
    bin: NDArray[np.int64] = field(repr=False)
    layer: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Codes(Record):
    """Where each transaction lands in each tree."""

    codes: NDArray[np.int32] = field(repr=False)


@dataclass(frozen=True)
class Totals(Record):
    """The own part of some layers plus the answers so far; one for each table and message."""

    totals: NDArray[np.uint32] = field(repr=False)


@dataclass(frozen=True)
class Permutation(Record):
    """Metered: the seed of a query, until its answers have come; one for each table and message."""

    seed: bytes = field(repr=False)


@dataclass(frozen=True)
class Stopped(Record):
    """Metered: the aggregator does not pass on the answers about a table, and why."""

    reason: str


# A bank.


@dataclass(frozen=True)
class OpenedSets(Record):
    """v_c of a table, (blocks, sets, N); one for each table."""

    v: NDArray[np.uint32] = field(repr=False)


@dataclass(frozen=True)
class LayersAnswered(Record):
    """How many layers the bank has answered on a day; one for routed tables, one for broadcast."""

    of_all_runs: ClassVar[bool] = True

    day: str
    layers: int


# The aggregator, with a batch.


@dataclass(frozen=True)
class FirstPart(Record):
    """Metered: the part of a sum that came first; one for each table and message."""

    sender: str
    budget: tuple[int, ...]
    """Of a bank: positive answers a day, and its release number."""
    residues: NDArray[np.uint32] = field(repr=False)


@dataclass(frozen=True)
class ScoreSum(Record):
    """The answers of some banks about some layers of a broadcast table, added up.

    Empty once all banks are in: the sum has been sent on.
    """

    received: tuple[str, ...]
    residues: NDArray[np.uint32] = field(repr=False)

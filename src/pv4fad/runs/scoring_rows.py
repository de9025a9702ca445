"""Transactions to score, as the payment network sees them: its own features, and who is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import compute_features
from pv4fad.data.routing import route
from pv4fad.data.schema import LABEL
from pv4fad.errors import ParameterError
from pv4fad.forest.structure import Forest
from pv4fad.parties.scoring_tables import ScoringInput
from pv4fad.protocol.tables import AccountKey
from pv4fad.runs.prepare import account_index, fingerprint

_ROUTING_COLUMNS = (
    "MessageId", "UETR", "Timestamp", "Sender", "Receiver", "OrderingAccount", "BeneficiaryAccount",
)  # fmt: skip


@dataclass(frozen=True)
class Batching:
    """How transactions are put to the banks.  Time and memory depend on it, votes do not."""

    transactions: int = 1_000_000
    """In one batch."""
    layers: int = 15
    """Public: banks are asked for a multiple of so many layers, however few a batch needs."""

    def __post_init__(self) -> None:
        if self.transactions < 1:
            raise ParameterError(f"batch {self.transactions}: give at least 1 transaction")
        if self.layers < 1:
            raise ParameterError(f"layers {self.layers}: give at least 1")


@dataclass(frozen=True)
class ScoringRows:
    """Transactions in the order given."""

    message_ids: pl.Series = field(repr=False)
    fingerprint: str
    """Of the transactions, without labels."""
    codes: NDArray[np.int32] = field(repr=False)  # (transactions, trees), as of Forest.route
    keys: Sequence[AccountKey] = field(repr=False)  # each account once
    key_of: NDArray[np.int64] = field(repr=False)  # (transactions, 2): numbers into `keys`

    def __len__(self) -> int:
        return len(self.codes)

    def batch(self, rows: slice, layers: int) -> ScoringInput:
        """Some of the transactions, in a multiple of so many layers."""
        used, key_of = np.unique(self.key_of[rows], return_inverse=True)
        keys = [self.keys[key] for key in used]
        return ScoringInput(self.codes[rows], keys, key_of.reshape(-1, 2), layers)


def scoring_rows(transactions: pl.DataFrame, history: pl.DataFrame, forest: Forest) -> ScoringRows:
    """What the payment network knows about new transactions.

    Features continue from the rows of `history`, and payments that began there are routed with
    them.  A label is not looked at.
    """
    transactions = transactions.drop(LABEL, strict=False)
    codes = forest.route(compute_features(transactions, history).values)
    known = pl.concat([history.select(_ROUTING_COLUMNS), transactions.select(_ROUTING_COLUMNS)])
    routed = route(known).tail(transactions.height)
    keys, index = account_index(routed, forest.sizes.n_trees)
    return ScoringRows(
        transactions["MessageId"],
        fingerprint(transactions),
        codes,
        list(keys.iter_rows()),
        index.key_of,
    )

"""Transactions to score, as the payment network sees them: its own features, and who is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import FeatureTable, compute_features
from pv4fad.data.loading import ACCOUNT_KEY
from pv4fad.data.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.data.schema import LABEL
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.recipe import LOCAL_SCORE
from pv4fad.errors import ParameterError
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import Side
from pv4fad.parties.scoring_tables import ScoringInput
from pv4fad.protocol.tables import AccountKey
from pv4fad.runs.prepare import account_index, fingerprint, with_local_score

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
    local_scores: NDArray[np.float32] | None = field(repr=False)  # None: there is no local model
    is_first: NDArray[np.bool_] = field(repr=False)
    """Whether the two accounts have dealt with each other before this payment: not if true."""
    history: NDArray[np.int64] = field(repr=False)
    """(keys, 2, 2, 2): training rows of each account, by side, is_first and label."""

    def require_local_scores(self) -> NDArray[np.float32]:
        if self.local_scores is None:
            raise ParameterError("these transactions have no local scores")
        return self.local_scores

    def then(self, other: ScoringRows) -> ScoringRows:
        """These rows and then those, for one scoring; local scores and history are not kept."""
        number = {key: index for index, key in enumerate(dict.fromkeys([*self.keys, *other.keys]))}
        key_of = [
            np.array([number[key] for key in one.keys], np.int64)[one.key_of]
            for one in (self, other)
        ]
        both = hashlib.sha256(f"{self.fingerprint} {other.fingerprint}".encode())
        return ScoringRows(
            pl.concat([self.message_ids, other.message_ids]),
            both.hexdigest(),
            np.concatenate([self.codes, other.codes]),
            list(number),
            np.concatenate(key_of),
            None,
            np.concatenate([self.is_first, other.is_first]),
            np.zeros((len(number), 2, 2, 2), np.int64),
        )

    def __len__(self) -> int:
        return len(self.codes)

    def batch(self, rows: slice, layers: int) -> ScoringInput:
        """Some of the transactions, in a multiple of so many layers."""
        used, key_of = np.unique(self.key_of[rows], return_inverse=True)
        keys = [self.keys[key] for key in used]
        return ScoringInput(self.codes[rows], keys, key_of.reshape(-1, 2), layers)


def scoring_rows(
    transactions: pl.DataFrame,
    history: pl.DataFrame,
    forest: Forest,
    local: LocalModel | None = None,
    features: FeatureTable | None = None,
) -> ScoringRows:
    """What the payment network knows about new transactions.

    Features continue from the rows of `history`, and payments that began there are routed with
    them.  Labels of the new transactions are not looked at.  `features`, if they are known already.
    """
    transactions = transactions.drop(LABEL, strict=False)
    if features is None:
        features = compute_features(transactions, history)
    scores = None if local is None else local.score(features.values)
    if scores is not None and LOCAL_SCORE in forest.feature_names:
        features = with_local_score(features, scores)
    codes = forest.route(features.values)
    known = pl.concat([history.select(_ROUTING_COLUMNS), transactions.select(_ROUTING_COLUMNS)])
    routed = route(known)
    keys, index = account_index(routed.tail(transactions.height), forest.sizes.n_trees)
    first = first_payments(known)
    past = routed.head(history.height).with_columns(history[LABEL], first=first[: history.height])
    return ScoringRows(
        transactions["MessageId"],
        fingerprint(transactions),
        codes,
        list(keys.iter_rows()),
        index.key_of,
        scores,
        first[history.height :].to_numpy(),
        _history(past, keys),
    )


def first_payments(rows: pl.DataFrame) -> pl.Series:
    """Whether each row belongs to a first payment from its ordering to its beneficiary account.

    First is a payment that no other one of that pair began strictly before.
    """
    pair = ("OrderingAccount", "BeneficiaryAccount")
    begin, first = (pl.col("Timestamp").min().over(over) for over in ((*pair, "UETR"), pair))
    return rows.select((begin == first).alias("first")).to_series()


def _history(past: pl.DataFrame, keys: pl.DataFrame) -> NDArray[np.int64]:
    """How many rows of the past have each account on each side, by is_first and label."""
    numbered = keys.with_row_index("key")
    counts = np.zeros((keys.height, len(Side), 2, 2), np.int64)
    for side, bank, account in (
        (Side.ORDERING, ORDERING_BANK, "OrderingAccount"),
        (Side.BENEFICIARY, BENEFICIARY_BANK, "BeneficiaryAccount"),
    ):
        known = past.select(
            pl.col(bank).cast(pl.String).alias("Bank"),
            pl.col(account).alias("Account"),
            "first",
            LABEL,
        )
        met = known.join(numbered, on=ACCOUNT_KEY, how="inner", nulls_equal=True)
        key, first, label = (
            met[one].to_numpy().astype(np.int64) for one in ("key", "first", LABEL)
        )
        np.add.at(counts[:, side], (key, first, label), 1)
    return counts

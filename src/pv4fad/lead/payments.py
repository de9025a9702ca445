"""Payments as the payment network sees them: who stands on which side, what it knew before them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel
from pv4fad.evidence.questions import EvidenceRows
from pv4fad.evidence.strata import AccountHistory
from pv4fad.forest.pairs import AccountIndex
from pv4fad.hashing.keyed import tree_of
from pv4fad.payments.features import FeatureTable, compute_features
from pv4fad.payments.loading import ACCOUNT_KEY
from pv4fad.payments.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.payments.schema import LABEL
from pv4fad.protocol.tables import AccountKey, TableAccounts, assign_tables

KEY_SCHEMA = {"Bank": pl.String, "Account": pl.String}
_ACCOUNTS = ("OrderingAccount", "BeneficiaryAccount")
_ROUTING_COLUMNS = ("MessageId", "UETR", "Timestamp", "Sender", "Receiver", *_ACCOUNTS)
_FINGERPRINT_ROWS = 100_000  # at a time


def account_index(routed: pl.DataFrame, n_trees: int) -> tuple[pl.DataFrame, AccountIndex]:
    """The distinct accounts (Bank, Account) of routed transactions, and who stands where."""
    sides = pl.concat(
        routed.select(pl.col(bank).cast(pl.String).alias("Bank"), pl.col(account).alias("Account"))
        for bank, account in (
            (ORDERING_BANK, "OrderingAccount"),
            (BENEFICIARY_BANK, "BeneficiaryAccount"),
        )
    )
    keys = sides.unique().sort(ACCOUNT_KEY)
    key_of = sides.join(
        keys.with_row_index("key"),
        on=ACCOUNT_KEY,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["key"].to_numpy()
    bare_ids = keys["Account"].unique().sort()
    index = AccountIndex(
        key_of.astype(np.int64).reshape(2, -1).T,
        keys["Account"].rank("dense").to_numpy().astype(np.int64) - 1,
        tree_of(bare_ids.cast(pl.Binary).to_list(), n_trees),
    )
    return keys, index


def inside_federation(keys: pl.DataFrame, directory: Mapping[str, str]) -> NDArray[np.bool_]:
    """Whether each account may be at a bank that takes part; `directory`: BIC → bank."""
    # A bank that is unknown may be any of them.
    return (keys["Bank"].is_null() | keys["Bank"].is_in(list(directory))).to_numpy()


def first_payments(rows: pl.DataFrame) -> pl.Series:
    """Whether each row belongs to a first payment from its ordering to its beneficiary account.

    First is a payment that no other one of that pair began strictly before.
    """
    pair = ("OrderingAccount", "BeneficiaryAccount")
    begin, first = (pl.col("Timestamp").min().over(over) for over in ((*pair, "UETR"), pair))
    return rows.select((begin == first).alias("first")).to_series()


def fingerprint(table: pl.DataFrame) -> str:
    """SHA-256 of the rows of a table, however its file spells them."""
    digest = hashlib.sha256(",".join(table.columns).encode())
    for rows in table.iter_slices(_FINGERPRINT_ROWS):
        digest.update(rows.write_csv(include_header=False).encode())
    return digest.hexdigest()


def tables_of(
    keys: pl.DataFrame, directory: Mapping[str, str], n_trees: int
) -> dict[str, TableAccounts]:
    """Which table each account belongs to; `directory`: BIC → bank of the federation."""
    some_unknown = keys["Bank"].null_count() > 0
    return assign_tables(list(keys.iter_rows()), directory, n_trees, broadcast=some_unknown)


# Payments to score.


@dataclass(frozen=True)
class NewPayments:
    """Payments in the order given, with what the payment network knew before them."""

    message_ids: pl.Series = field(repr=False)
    fingerprint: str
    """Of the payments, without labels."""
    features: FeatureTable = field(repr=False)
    keys: Sequence[AccountKey] = field(repr=False)
    """Each account once."""
    key_of: NDArray[np.int64] = field(repr=False)  # (payments, 2): numbers into `keys`
    is_first: NDArray[np.bool_] = field(repr=False)
    """True if the two accounts never dealt with each other before."""
    stratum: NDArray[np.int64] = field(repr=False)  # (payments, 2)
    hit: NDArray[np.bool_] = field(repr=False)  # (payments, 2)

    def __len__(self) -> int:
        return len(self.key_of)

    def evidence_rows(self, local: LocalModel, directory: Mapping[str, str]) -> EvidenceRows:
        """As the default model judges them; `directory`: BIC → bank of the federation."""
        keys = pl.DataFrame(self.keys, schema=KEY_SCHEMA, orient="row")
        return EvidenceRows(
            local.score(self.features.values),
            self.is_first,
            self.stratum,
            self.hit,
            self.key_of,
            inside_federation(keys, directory)[self.key_of],
        )


def new_payments(
    transactions: pl.DataFrame, history: pl.DataFrame, features: FeatureTable | None = None
) -> NewPayments:
    """What the payment network knows about new transactions.

    Features continue from the rows of `history`, and payments that began there are routed with
    them.  Labels of the new transactions are not looked at.  `features`, if they are known already.
    """
    transactions = transactions.drop(LABEL, strict=False)
    if features is None:
        features = compute_features(transactions, history)
    known = pl.concat([history.select(_ROUTING_COLUMNS), transactions.select(_ROUTING_COLUMNS)])
    keys, index = account_index(route(known).tail(transactions.height), 1)
    is_first = first_payments(known)[history.height :].to_numpy()
    past, account = _account_history(history, transactions)
    return NewPayments(
        transactions["MessageId"],
        fingerprint(transactions),
        features,
        list(keys.iter_rows()),
        index.key_of,
        is_first,
        past.strata(account, is_first),
        past.hits(account),
    )


def _account_history(
    history: pl.DataFrame, new: pl.DataFrame
) -> tuple[AccountHistory, NDArray[np.int64]]:
    """What training says about accounts, and which account each side of a new payment has."""
    both = pl.concat([history.select(_ACCOUNTS), new.select(_ACCOUNTS)])
    bare = pl.concat([both[name] for name in _ACCOUNTS]).rank("dense").to_numpy().astype(np.int64)
    account = (bare - 1).reshape(2, -1).T
    n_accounts = int(account.max(initial=-1)) + 1
    labels = history[LABEL].to_numpy().astype(np.int8)
    # Accounts that training has not seen have no history there.
    past = AccountHistory.of(account[: history.height], labels, n_accounts)
    return past, account[history.height :]

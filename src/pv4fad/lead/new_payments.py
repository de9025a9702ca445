"""Payments to score, as the payment network sees them: its own features, and who could be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel
from pv4fad.evidence.questions import EvidenceRows
from pv4fad.evidence.strata import AccountHistory
from pv4fad.lead.payments import account_index, fingerprint, first_payments, inside_federation
from pv4fad.payments.features import FeatureTable, compute_features
from pv4fad.payments.routing import route
from pv4fad.payments.schema import LABEL
from pv4fad.protocol.tables import AccountKey

_ROUTING_COLUMNS = (
    "MessageId", "UETR", "Timestamp", "Sender", "Receiver", "OrderingAccount", "BeneficiaryAccount",
)  # fmt: skip
_ACCOUNTS = ("OrderingAccount", "BeneficiaryAccount")


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


KEY_SCHEMA = {"Bank": pl.String, "Account": pl.String}


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

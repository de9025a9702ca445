"""What is found with all data in one place: what a private run is held against.

This sees everything, transactions, labels and flags: it is for tests and demonstrations.  It does
what the payment network does alone, with its local model and its own label history of accounts, but
the local model is given the flags of both accounts as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.evidence.knowledge import own_hazard
from pv4fad.forest.atoms import AtomSchema
from pv4fad.lead.bank_files import bank_directory
from pv4fad.lead.evidence_model import prepare_evidence
from pv4fad.lead.payments import new_payments
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.features import FeatureTable, compute_features
from pv4fad.payments.loading import load_partition
from pv4fad.payments.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.payments.schema import LABEL
from pv4fad.verify.comparison import joined_atoms

_SIDES = {"ordering_flag": (ORDERING_BANK, "OrderingAccount")} | {
    "beneficiary_flag": (BENEFICIARY_BANK, "BeneficiaryAccount")
}
_SEED = 11


def joined_scores(train: Path, test: Path) -> NDArray[np.float64]:
    """A score for each transaction of the test split, in its order."""
    known, new = load_partition(train), load_partition(test)
    if not new.accounts:
        raise DataError(f"{test}: has no accounts of banks, so there is nothing to join")
    history, transactions = known.transactions.frame, new.transactions.frame
    accounts = {bank: table.frame for bank, table in new.accounts.items()}
    # A payment that began in training is routed with all its legs, as in a private run.
    columns = [name for name in history.columns if name != LABEL]
    both = pl.concat(
        [history.select(columns), transactions.select(columns)], how="vertical_relaxed"
    )
    flags = _flags(route(both), accounts)
    past = _with_flags(compute_features(history), flags[: history.height])
    present = _with_flags(compute_features(transactions, history), flags[history.height :])
    # No bank has a part in what is used of this.
    settings, directory = TrainingSettings(epsilon="none"), bank_directory(accounts)
    own = prepare_evidence(history, directory, settings, _SEED, past).own
    rows = new_payments(transactions, history, present).evidence_rows(own.local, directory)
    local = own.knowledge.scale.log_odds(rows.local_scores)
    return own_hazard(local, own.knowledge.history, rows.is_first, rows.stratum, rows.hit)


def _with_flags(features: FeatureTable, flags: NDArray[np.float64]) -> FeatureTable:
    values = np.hstack([features.values, flags]).astype(np.float32)
    return FeatureTable((*features.names, *_SIDES), values)


def _flags(routed: pl.DataFrame, accounts: Mapping[str, pl.DataFrame]) -> NDArray[np.float64]:
    """The number of the flag of each side's account, -1 where no bank has it."""
    sides = (
        routed.select(Bank=pl.col(bank).cast(pl.String), Account=account)
        for bank, account in _SIDES.values()
    )
    schema = AtomSchema()
    flags = [joined_atoms(keys, accounts, schema)[:, 0] for keys in sides]
    return np.stack(flags, axis=1).astype(np.float64)

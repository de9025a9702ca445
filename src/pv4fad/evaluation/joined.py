"""What could be found with all data in one place: the bound that a private run is held against.

This sees everything, transactions, labels and flags: it is for tests and demonstrations.  The
detector is the payment network's local model, given the flags of both accounts as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import compute_features
from pv4fad.data.loading import ACCOUNT_KEY, load_partition
from pv4fad.data.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.data.schema import LABEL
from pv4fad.detection.local_model import LocalModel
from pv4fad.errors import DataError

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
    labels = history[LABEL].to_numpy().astype(np.int8)
    before, after = compute_features(history), compute_features(transactions, history)
    # A payment that began in training is routed with all its legs, as in a private run.
    columns = [name for name in history.columns if name != LABEL]
    both = pl.concat(
        [history.select(columns), transactions.select(columns)], how="vertical_relaxed"
    )
    flags = _flags(route(both), {bank: one.frame for bank, one in new.accounts.items()})
    past = np.hstack([before.values, flags[: history.height]]).astype(np.float32)
    present = np.hstack([after.values, flags[history.height :]]).astype(np.float32)
    # One group: no out-of-fold scores are wanted.
    group = np.zeros(len(labels), np.int64)
    model, _ = LocalModel.fit(past, (*before.names, *_SIDES), labels, group, seed=_SEED)
    return model.score(present).astype(np.float64)


def _flags(routed: pl.DataFrame, accounts: Mapping[str, pl.DataFrame]) -> NDArray[np.float64]:
    """The number of the flag of each side's account, -1 where no bank has it."""
    everybody = pl.concat(
        frame.select(pl.col("Bank").cast(pl.String), "Account", flag=pl.col("Flags").to_physical())
        for frame in accounts.values()
    )
    sides = [
        routed.select(pl.col(bank).cast(pl.String).alias("Bank"), pl.col(account).alias("Account"))
        .join(everybody, on=ACCOUNT_KEY, how="left", maintain_order="left")["flag"]
        .cast(pl.Float64)
        .fill_null(-1.0)
        .to_numpy()
        for bank, account in _SIDES.values()
    ]
    return np.stack(sides, axis=1)

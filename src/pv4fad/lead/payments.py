"""Payments as a run sees them: who stands on which side, who deals for the first time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.forest.pairs import AccountIndex
from pv4fad.hashing.keyed import tree_of
from pv4fad.payments.loading import ACCOUNT_KEY
from pv4fad.payments.routing import BENEFICIARY_BANK, ORDERING_BANK

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

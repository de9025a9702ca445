"""Accounts: how many each bank has, who uses which, which are flagged, what they look like.

Accounts are numbered, bank after bank; within a bank those that order payments come first, those
that receive come last, and some in between do both.  Flagged accounts follow after all of them, so
that only what is meant to touch a flagged account does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.payments.generate.calibration import (
    BENEFICIARY_PER_ACCOUNT,
    FLAGGED_PER_CODE,
    FLAGGED_PER_CODE_BASE,
    MIN_FLAGGED_PER_CODE,
    ORDERING_PER_ACCOUNT,
    WARNING_FLAGS,
)
from pv4fad.payments.generate.institutions import Institutions, Integers
from pv4fad.payments.generate.text import (
    account_numbers,
    country_city_zips,
    holder_names,
    streets,
)
from pv4fad.payments.schema import ACCOUNT_SCHEMA, NO_FLAG

_NAMELESS_SHARE = 0.02  # accounts whose bank has no name for them
# Many accounts have a single relation.  The original's flagged accounts have one or two messages
# each; if that were rare, the payment network alone would see what only banks should see.
_BUSY_SHARE = 0.6
_CONCENTRATION = 1.6  # 1: all busy accounts equally busy; above: some much busier than others


@dataclass(frozen=True)
class AccountPool:
    """Which account numbers belong to which bank, in which role."""

    bank: Integers  # by account: number of its bank; regular accounts, then flagged ones
    flag: NDArray[np.str_]  # by account
    nameless: NDArray[np.bool_]  # by account
    ordering_start: Integers  # by bank: its first ordering account
    ordering_size: Integers
    beneficiary_start: Integers
    beneficiary_size: Integers

    def banks_with(self, codes: Sequence[str], n_banks: int) -> NDArray[np.bool_]:
        """By bank: whether it has an account with one of these flags."""
        holders = self.bank[np.isin(self.flag, codes)]
        return np.bincount(holders, minlength=n_banks) > 0

    def flagged_at(
        self, bank: Integers, codes: Sequence[str], rng: np.random.Generator
    ) -> Integers:
        """For each bank (one that has such accounts) an account with one of these flags."""
        flagged = np.flatnonzero(np.isin(self.flag, codes))
        # Sorted by bank, the accounts to choose from are one range.
        flagged = flagged[np.argsort(self.bank[flagged], kind="stable")]
        banks = self.bank[flagged]
        low, high = np.searchsorted(banks, bank), np.searchsorted(banks, bank, "right")
        result: Integers = flagged[rng.integers(low, high)]
        return result

    def ordinary_beneficiary_at(self, bank: Integers, rng: np.random.Generator) -> Integers:
        """For each bank one of its unflagged accounts that receive payments."""
        start, size = self.beneficiary_start[bank], self.beneficiary_size[bank]
        result: Integers = start + rng.integers(0, size)
        return result


def draw_pool(
    n_accounts: int, ordering_load: Integers, beneficiary_load: Integers, rng: np.random.Generator
) -> AccountPool:
    """Accounts per bank in proportion to how many relations begin and end there."""
    flags = _draw_flags(n_accounts, rng)
    n_regular = n_accounts - len(flags)
    n_ordering = round(n_accounts * ORDERING_PER_ACCOUNT)
    n_beneficiary = round(n_accounts * BENEFICIARY_PER_ACCOUNT) - len(flags)
    ordering = _apportion(n_ordering, ordering_load)
    beneficiary = _apportion(n_beneficiary, beneficiary_load, least=1)
    in_both = np.minimum(ordering, beneficiary)
    n_both = min(n_ordering + n_beneficiary - n_regular, int(in_both.sum()))
    both = np.minimum(_apportion(n_both, in_both), in_both)
    size = ordering + beneficiary - both
    start = np.cumsum(size) - size
    banks = np.arange(len(size))
    flag_bank = rng.choice(banks, len(flags), p=beneficiary_load / beneficiary_load.sum())
    bank = np.concatenate([np.repeat(banks, size), flag_bank])
    return AccountPool(
        bank=bank,
        flag=np.concatenate([np.full(int(size.sum()), NO_FLAG), flags]),
        nameless=rng.random(len(bank)) < _NAMELESS_SHARE,
        ordering_start=start,
        ordering_size=ordering,
        beneficiary_start=start + ordering - both,
        beneficiary_size=beneficiary,
    )


def assign_accounts(
    bank: Integers, start: Integers, size: Integers, rng: np.random.Generator
) -> Integers:
    """An account at each relation's bank: every account once, the busy ones again and again."""
    # Which relation gets which account is random: were it the order of relations, quiet accounts
    # would deal with quiet accounts only.
    order = np.lexsort((rng.random(len(bank)), bank))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(bank)) - np.searchsorted(bank[order], bank[order])
    position = rng.random(len(bank)) ** _CONCENTRATION
    busy = (_BUSY_SHARE * size[bank] * position).astype(np.int64)
    result: Integers = start[bank] + np.where(rank < size[bank], rank, busy)
    return result


def account_table(
    pool: AccountPool, absent_bank: Integers, institutions: Institutions, rng: np.random.Generator
) -> pl.DataFrame:
    """All accounts of the pool as a table in the accounts' schema, then ids of absent ones.

    Absent accounts have an id in the manner of their bank, and are in no bank's file.
    """
    bank = np.concatenate([pool.bank, absent_bank])
    countries = pl.Series(institutions.countries).gather(bank)
    n = len(bank)
    nameless = pl.Series(np.concatenate([pool.nameless, np.zeros(len(absent_bank), bool)]))
    frame = pl.DataFrame(
        {
            "Bank": pl.Series(institutions.bics).gather(bank),
            "Account": account_numbers(countries, rng),
            "Name": holder_names(n, rng).set(nameless, None),
            "Street": streets(n, rng),
            "CountryCityZip": country_city_zips(countries, rng),
            "Flags": np.concatenate([pool.flag, np.full(len(absent_bank), NO_FLAG)]),
        }
    )
    return frame.cast(ACCOUNT_SCHEMA)


def _draw_flags(n_accounts: int, rng: np.random.Generator) -> NDArray[np.str_]:
    """A flag code for each flagged account."""
    low, high = FLAGGED_PER_CODE
    scale = n_accounts / FLAGGED_PER_CODE_BASE
    counts = np.rint(rng.integers(low, high + 1, len(WARNING_FLAGS)) * scale).astype(np.int64)
    return np.repeat(WARNING_FLAGS, np.maximum(counts, MIN_FLAGGED_PER_CODE))


def _apportion(total: int, weights: Integers, least: int = 0) -> Integers:
    """Whole numbers that add up to `total`, in proportion to weights (largest remainders)."""
    spare = total - least * len(weights)
    exact = spare * weights / weights.sum()
    parts = np.floor(exact).astype(np.int64)
    largest = np.argsort(parts - exact, kind="stable")[: spare - int(parts.sum())]
    parts[largest] += 1
    result: Integers = parts + least
    return result

"""The generator as one function: settings in, tables out.

    1  institutions and their habits         4  anomalies, written into the payments
    2  relations between accounts            5  messages and account files
    3  payments

Each step has a random stream of its own, derived from the seed: equal settings give equal tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from pv4fad.errors import ParameterError
from pv4fad.payments.challenge import bank_client_id
from pv4fad.payments.generate.accounts import account_table
from pv4fad.payments.generate.anomalies import inject
from pv4fad.payments.generate.calibration import (
    ACCOUNTS_PER_MESSAGE,
    ANOMALY_RATE,
    CHALLENGE_OVERLAP,
    HARD_OVERLAP,
)
from pv4fad.payments.generate.institutions import draw_institutions
from pv4fad.payments.generate.messages import Messages, make_messages
from pv4fad.payments.generate.payments import draw_payments, draw_relations
from pv4fad.payments.generate.perturbations import Surroundings

MIN_TRANSACTIONS, MAX_TRANSACTIONS = 1_000, 50_000_000
MIN_BANKS, MAX_BANKS = 3, 99
MIN_MESSAGES_PER_BANK = 40
MIN_ACCOUNTS, MIN_ACCOUNTS_PER_BANK = 100, 10
MAX_ANOMALY_RATE = 0.05

Report = Callable[[str], None]
"""Told the name of each step as it begins."""

TABLE_STEPS = ("institutions", "relations", "payments", "anomalies", "messages")


class Difficulty(StrEnum):
    """How telling the data is.

    In `challenge` a flag means an anomaly, as in the original.  In `hard` it need not, an anomaly
    need not have a flag, and odd-looking messages are as often normal as anomalous.
    """

    CHALLENGE = "challenge"
    HARD = "hard"


@dataclass(frozen=True)
class Settings:
    """Checked parameters of one data set; equal settings give equal data."""

    transactions: int
    banks: int
    difficulty: Difficulty
    seed: int
    anomaly_rate: float = ANOMALY_RATE
    accounts: int | None = None  # None: as many per message as in the original

    def __post_init__(self) -> None:
        _require_range("transactions", self.transactions, MIN_TRANSACTIONS, MAX_TRANSACTIONS)
        _require_range("banks", self.banks, MIN_BANKS, MAX_BANKS)
        if self.transactions < MIN_MESSAGES_PER_BANK * self.banks:
            raise ParameterError(
                f"transactions {self.transactions} are too few for banks {self.banks}: "
                f"give at least {MIN_MESSAGES_PER_BANK} per bank"
            )
        if not 0.0 < self.anomaly_rate <= MAX_ANOMALY_RATE:
            raise ParameterError(
                f"anomaly-rate {self.anomaly_rate} is outside 0 < rate <= {MAX_ANOMALY_RATE}"
            )
        if self.seed < 0:
            raise ParameterError(f"seed {self.seed} is negative; give 0 or more")
        if self.accounts is not None:
            _require_range("accounts", self.accounts, self._least_accounts, self.transactions)

    @property
    def n_accounts(self) -> int:
        """Accounts in all banks' files together."""
        if self.accounts is not None:
            return self.accounts
        return max(self._least_accounts, round(self.transactions * ACCOUNTS_PER_MESSAGE))

    @property
    def _least_accounts(self) -> int:
        return max(MIN_ACCOUNTS, MIN_ACCOUNTS_PER_BANK * self.banks)

    @property
    def is_hard(self) -> bool:
        return self.difficulty is Difficulty.HARD


@dataclass(frozen=True)
class GeneratedTables:
    """All parties' tables; the kinds of anomalies are for analysis only."""

    train: Messages
    test: Messages
    accounts: dict[str, pl.DataFrame]  # bank client id → its accounts


def generate_tables(settings: Settings, report: Report = lambda _: None) -> GeneratedTables:
    """Generate a data set in memory."""
    streams = iter(np.random.default_rng(settings.seed).spawn(len(TABLE_STEPS) + 1))
    overlap = HARD_OVERLAP if settings.is_hard else CHALLENGE_OVERLAP
    report("institutions")
    institutions = draw_institutions(settings.banks, next(streams))
    report("relations")
    relations, pool = draw_relations(
        settings.transactions,
        settings.n_accounts,
        overlap.exchanged_share,
        institutions,
        next(streams),
    )
    report("payments")
    payments = draw_payments(settings.transactions, relations, institutions, next(streams))
    report("anomalies")
    around = Surroundings(institutions, pool, overlap, next(streams))
    marks = inject(payments, around, settings.anomaly_rate)
    report("messages")
    known = account_table(pool, marks.absent_bank, institutions, next(streams))
    train, test = make_messages(payments, marks, known, institutions, next(streams))
    # Sorted by number, as a bank would: the order must not tell the flagged ones apart.
    in_file = known[: len(pool.bank)].sort("Account")
    files = in_file.partition_by("Bank", as_dict=True)
    accounts = {
        bank_client_id(number): files[(bic,)]
        for number, bic in enumerate(institutions.bics[: settings.banks], start=1)
    }
    return GeneratedTables(train, test, accounts)


def _require_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ParameterError(f"{name} {value} is outside {low}..{high}")

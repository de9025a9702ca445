"""The generator as one function: settings in, tables out.

    1  institutions and their habits         4  anomalies, written into the payments
    2  relations between accounts            5  messages and account files
    3  payments

Each step has a random stream of its own, derived from the seed: equal settings give equal tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from pv4fad.payments.challenge import bank_client_id
from pv4fad.payments.generate.accounts import account_table
from pv4fad.payments.generate.anomalies import inject
from pv4fad.payments.generate.calibration import CHALLENGE_OVERLAP, HARD_OVERLAP
from pv4fad.payments.generate.institutions import draw_institutions
from pv4fad.payments.generate.messages import Messages, make_messages
from pv4fad.payments.generate.payments import draw_payments, draw_relations
from pv4fad.payments.generate.perturbations import Surroundings
from pv4fad.payments.generate.settings import Settings

Report = Callable[[str], None]
"""Told the name of each step as it begins."""

TABLE_STEPS = ("institutions", "relations", "payments", "anomalies", "messages")


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

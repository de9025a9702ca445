"""Small data: a thousand transactions, of three institutions of which two take part."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pv4fad.lead.data import classified
from pv4fad.payments.challenge import write_partition, write_scenarios
from pv4fad.payments.generate import Difficulty, GeneratedTables, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA

PASSPHRASE = "correct horse battery"


def small_tables(seed: int = 3) -> GeneratedTables:
    """Many anomalies, so that there are leaves of both labels."""
    settings = Settings(1000, 3, Difficulty.HARD, seed, anomaly_rate=0.05, accounts=300)
    return generate_tables(settings)


def telling_tables() -> GeneratedTables:
    """Enough anomalies for banks' records to decide about some payments."""
    settings = Settings(3000, 3, Difficulty.CHALLENGE, 3, anomaly_rate=0.05, accounts=400)
    return generate_tables(settings)


def records_of(accounts: Mapping[str, pl.DataFrame], *banks: str) -> dict[str, pl.DataFrame]:
    """Holder, Id and Class of the accounts of these banks, or of all."""
    return {bank: classified(SCHEMA, accounts[bank], bank) for bank in banks or accounts}


def write_two_banks(root: Path, tables: GeneratedTables) -> Path:
    """A challenge folder in which the third bank takes no part; returns its train folder."""
    banks = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    train = root / "scenario01" / "train"
    write_partition(train, tables.train.transactions, banks)
    write_scenarios(root, ["scenario01"])
    return train

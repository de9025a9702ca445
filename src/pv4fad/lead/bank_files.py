"""A bank's account file, and what the bank brings to a run from it.

Beside the file, `slots.toml` says what the bank's private slots mean.

A slot's meaning is applied where the file is read, and stays there: the table then has a column
`slot NAME`, yes or no, and no other column of the bank's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from pv4fad.errors import DataError
from pv4fad.forest.atoms import AtomSchema
from pv4fad.forest.records import SlotPredicate, holds, load_slots, record_atoms
from pv4fad.lead.payments import fingerprint
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.identity import qualified_key_expr
from pv4fad.payments.loading import (
    ACCOUNT_KEY,
    AccountTable,
    PartitionTables,
    load_accounts,
    load_partition,
)
from pv4fad.protocol.match.bank_accounts import BankRecords

SLOTS_FILE = "slots.toml"
_PREFIX = "slot "


def load_bank(path: Path) -> pl.DataFrame:
    """A bank's accounts, with its slots."""
    slots = _slots(path)
    return _with_slots(load_accounts(path, further_columns=_columns(slots)), slots).frame


def load_banks(split: Path, banks: Iterable[str]) -> dict[str, pl.DataFrame]:
    """The accounts of every bank of a run, in the order of the run."""
    files, wanted = read_partition(split).accounts, list(banks)
    if set(files) != set(wanted):
        raise DataError(
            f"{split} has the banks {', '.join(files)}; the run has {', '.join(wanted)}"
        )
    return {bank: load_bank(files[bank]) for bank in wanted}


def load_split(folder: Path) -> PartitionTables:
    """A split of the challenge layout, every bank's accounts with its slots."""
    slots = {bank: _slots(path) for bank, path in read_partition(folder).accounts.items()}
    tables = load_partition(
        folder, further_columns={bank: _columns(own) for bank, own in slots.items()}
    )
    accounts = {bank: _with_slots(table, slots[bank]) for bank, table in tables.accounts.items()}
    return replace(tables, accounts=accounts)


def applied_slots(accounts: pl.DataFrame) -> dict[str, SlotPredicate]:
    """The slots of a loaded table: their values are in it."""
    names = [name for name in accounts.columns if name.startswith(_PREFIX)]
    return {
        name.removeprefix(_PREFIX): SlotPredicate(column=name, operator="==", value=True)
        for name in names
    }


def bank_records(
    accounts: pl.DataFrame, schema: AtomSchema, slots: Mapping[str, SlotPredicate] | None = None
) -> BankRecords:
    """A bank's accounts (ACCOUNT_SCHEMA, each once) as it brings them to a run.

    `slots`: the bank's own meaning of the private slots of the run; by default those that were
    applied when its file was read.
    """
    slots = applied_slots(accounts) if slots is None else slots
    ids = accounts.select(
        qualified=qualified_key_expr(pl.col("Bank").cast(pl.String), pl.col("Account")),
        bare=pl.col("Account").cast(pl.Binary),
    )
    return BankRecords(
        tuple(ids["qualified"]),
        tuple(ids["bare"]),
        record_atoms(schema, accounts, slots).astype(np.int16),
        account_file_fingerprint(accounts),
    )


def account_file_fingerprint(accounts: pl.DataFrame) -> str:
    """The version of a bank's account file: equal if and only if the records are."""
    return fingerprint(accounts.sort(ACCOUNT_KEY))


def bank_directory(accounts: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """BIC → bank, as the banks of a federation make it known."""
    directory: dict[str, str] = {}
    for bank, frame in accounts.items():
        if frame.is_empty():
            raise DataError(f"{bank} has no accounts: leave it out of the federation")
        directory |= dict.fromkeys(frame["Bank"].cast(pl.String).unique().sort(), bank)
    return directory


def all_records(accounts: Mapping[str, pl.DataFrame], schema: AtomSchema) -> dict[str, BankRecords]:
    """The records of every bank of a federation on one machine."""
    return {bank: bank_records(frame, schema) for bank, frame in accounts.items()}


def _slots(path: Path) -> dict[str, SlotPredicate]:
    file = path.with_name(SLOTS_FILE)
    return load_slots(file) if file.is_file() else {}


def _columns(slots: Mapping[str, SlotPredicate]) -> list[str]:
    return list(dict.fromkeys(slot.column for slot in slots.values()))


def _with_slots(table: AccountTable, slots: Mapping[str, SlotPredicate]) -> AccountTable:
    values = {
        f"{_PREFIX}{name}": pl.Series(holds(table.frame, name, slot), dtype=pl.Boolean)
        for name, slot in slots.items()
    }
    own = _columns(slots)
    return replace(table, frame=table.frame.drop(own).with_columns(**values))

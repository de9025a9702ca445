"""A bank's files: its accounts, and beside them what its private slots mean (`slots.toml`).

A slot's meaning is applied where the file is read, and stays there: the table then has a column
`slot NAME`, yes or no, and no other column of the bank's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from pv4fad.forest.records import SlotPredicate, holds, load_slots
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.loading import AccountTable, PartitionTables, load_accounts, load_partition

SLOTS_FILE = "slots.toml"
_PREFIX = "slot "


def load_bank(path: Path) -> pl.DataFrame:
    """A bank's accounts, with its slots."""
    slots = _slots(path)
    return _with_slots(load_accounts(path, further_columns=_columns(slots)), slots).frame


def load_split(folder: Path) -> PartitionTables:
    """A split of the challenge layout, every bank's accounts with its slots."""
    slots = {bank: _slots(path) for bank, path in read_partition(folder).accounts.items()}
    tables = load_partition(
        folder, further_columns={bank: _columns(one) for bank, one in slots.items()}
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


def _slots(path: Path) -> dict[str, SlotPredicate]:
    file = path.with_name(SLOTS_FILE)
    return load_slots(file) if file.is_file() else {}


def _columns(slots: Mapping[str, SlotPredicate]) -> list[str]:
    return list(dict.fromkeys(one.column for one in slots.values()))


def _with_slots(table: AccountTable, slots: Mapping[str, SlotPredicate]) -> AccountTable:
    values = {
        f"{_PREFIX}{name}": pl.Series(holds(table.frame, name, one), dtype=pl.Boolean)
        for name, one in slots.items()
    }
    own = _columns(slots)
    return replace(table, frame=table.frame.drop(own).with_columns(**values))

"""Which account goes into which table, and how large the tables are declared (protocol.md §3.1).

An account whose bank takes part goes into that bank's table; one of an institution that takes no
part goes, under its own name, into the table of a bank chosen by hash, where it matches
nothing; one whose bank is unknown goes into the broadcast table, which all banks get.  Every bank
gets a table, and its size is padded: no bank learns how many accounts the payment network has
with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.forest.structure import PublicSizes
from pv4fad.hashing.keyed import hash_accounts, reduce_words, tree_of
from pv4fad.protocol.layouts import cheapest_layout
from pv4fad.protocol.parameters import BROADCAST, TablePlan
from pv4fad.schema import KEY_SEPARATOR

AccountKey = tuple[str | None, str]
"""What rows call the bank, or None if it is unknown, and the bare canonical id."""

_SMALLEST_DECLARED = 1000
_OUTSIDER_KEY = bytes(32)  # a public hash: which table an outsider goes to is no secret to S


@dataclass(frozen=True)
class TableAccounts:
    """The accounts of one table: as hashed, the tree each teaches, its number among the keys."""

    ids: tuple[bytes, ...] = field(repr=False)
    trees: NDArray[np.int64] = field(repr=False)
    keys: NDArray[np.int64] = field(repr=False)


def assign_tables(
    keys: Sequence[AccountKey], directory: Mapping[str, str], n_trees: int, *, broadcast: bool
) -> dict[str, TableAccounts]:
    """The tables of a run.  `directory`: what rows call a bank → the bank that takes part."""
    banks = sorted(set(directory.values()))
    members: dict[str, list[int]] = {bank: [] for bank in banks}
    if broadcast:
        members[BROADCAST] = []
    outsiders: list[int] = []
    for number, (bank, _) in enumerate(keys):
        if bank is None:
            if not broadcast:
                raise DataError(
                    "some records have no known holder: the run needs a broadcast table"
                )
            members[BROADCAST].append(number)
        elif bank in directory:
            members[directory[bank]].append(number)
        else:
            outsiders.append(number)
    chosen = hash_accounts([hashed_id(keys[i]) for i in outsiders], _OUTSIDER_KEY).tags
    for number, chosen_bank in zip(outsiders, reduce_words(chosen, len(banks)), strict=True):
        members[banks[chosen_bank]].append(number)
    return {
        table_id: TableAccounts(
            tuple(hashed_id(keys[i]) for i in numbers),
            tree_of([keys[i][1].encode() for i in numbers], n_trees),
            np.array(numbers, np.int64),
        )
        for table_id, numbers in members.items()
    }


def plan_tables(
    tables: Mapping[str, TableAccounts], bank_accounts: Mapping[str, int], sizes: PublicSizes
) -> tuple[TablePlan, ...]:
    """The public layout of every table, from padded numbers of accounts on both sides."""
    plans = []
    for table_id, accounts in tables.items():
        banks = tuple(bank_accounts) if table_id == BROADCAST else (table_id,)
        layout = cheapest_layout(
            padded(len(accounts.ids)),
            max(padded(bank_accounts[bank]) for bank in banks),
            n_trees=sizes.n_trees,
            n_atoms=sizes.n_atoms,
            n_tables=len(tables),
        )
        broadcast = table_id == BROADCAST
        plans.append(TablePlan(table_id=table_id, banks=banks, broadcast=broadcast, layout=layout))
    return tuple(plans)


def padded(n: int) -> int:
    """A round number, 8 to 15 times a power of two: at least n, and at most an eighth more.

    At least a thousand: fewer would cost hardly less.
    """
    n = max(n, _SMALLEST_DECLARED)
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


def hashed_id(key: AccountKey) -> bytes:
    """What is hashed for an account: `BANK|ID`, or the bare id where the bank is unknown."""
    bank, bare = key
    return bare.encode() if bank is None else f"{bank}{KEY_SEPARATOR}{bare}".encode()


def account_key(hashed: bytes, *, broadcast: bool) -> AccountKey:
    """Which account it is: `hashed_id` backwards."""
    if broadcast:
        return None, hashed.decode()
    bank, _, bare = hashed.decode().partition(KEY_SEPARATOR)
    return bank, bare

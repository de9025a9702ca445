"""Stores of earlier formats: what brings a file from one format to the next.

`MIGRATIONS[n]` makes a file of format n one of format n + 1.  All steps of a file are one
transaction: after a crash it has the old format or the present one.  A step has no root key, so it
changes what is in the clear only, and leaves sealed bytes as they are: models of earlier versions
are not brought along (`records`).  For each format there is a
file in tests/store/formats, made by the last program that used it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

Info = Any
"""The row of `info`, of whatever format."""
INFO_TABLE = """CREATE TABLE info (
        store_id TEXT NOT NULL, party TEXT NOT NULL, manifest BLOB NOT NULL,
        key_kind TEXT NOT NULL, key_about TEXT NOT NULL, key_since TEXT NOT NULL,
        locked_key BLOB NOT NULL)"""


def migrate(connection: sqlite3.Connection, present: int) -> None:
    """All steps to the present format; `ValueError` if the file is damaged."""
    # A page that becomes free would keep its content: here, the key as it was locked before.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        ((version,),) = connection.execute("PRAGMA user_version")
        for step in range(version, present):
            MIGRATIONS[step](connection)
        connection.execute(f"PRAGMA user_version = {present}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA secure_delete = FAST")


def present_info(row: Info, version: int, present: int) -> Info:
    """What the row of `info` in a file of some format is in the present one; the file stays."""
    for step in range(version, present):
        row = _INFO[step](row)
    return row


def _root_keys_of_all_kinds(row: Info) -> Info:
    """5 to 6: the columns for scrypt become the description of a root key of any kind."""
    if row is None or tuple(map(type, row)) != (str, str, int, int, int, int, bytes, bytes, bytes):
        raise ValueError("not the table of format 5")
    store_id, party, log2_n, r, p, insecure_fast, salt, locked_key, manifest = row
    cost = {"log2_n": log2_n, "r": r, "p": p, "insecure_fast": insecure_fast}
    about = json.dumps(cost | {"salt": salt.hex()})
    return store_id, party, manifest, "passphrase", about, "", locked_key


def _new_info(connection: sqlite3.Connection) -> None:
    row = _root_keys_of_all_kinds(connection.execute("SELECT * FROM info").fetchone())
    connection.execute("DROP TABLE info")
    connection.execute(INFO_TABLE)
    connection.execute("INSERT INTO info VALUES (?, ?, ?, ?, ?, ?, ?)", row)


_INFO: dict[int, Callable[[Info], Info]] = {5: _root_keys_of_all_kinds}
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {5: _new_info}

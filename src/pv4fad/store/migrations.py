"""Stores of earlier formats: what brings a file from one format to the next.

`MIGRATIONS[n]` makes a file of format n one of format n + 1.  All steps of a file are one
transaction: after a crash it has the old format or the present one.  A step has no root key, so it
changes what is in the clear only, and leaves sealed bytes as they are.  For each format there is a
file in tests/store/formats, made by the last program that used it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

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


def _root_keys_of_all_kinds(connection: sqlite3.Connection) -> None:
    """5 to 6: the columns for scrypt become the description of a root key of any kind."""
    row = connection.execute("SELECT * FROM info").fetchone()
    if row is None or tuple(map(type, row)) != (str, str, int, int, int, int, bytes, bytes, bytes):
        raise ValueError("not the table of format 5")
    store_id, party, log2_n, r, p, insecure_fast, salt, locked_key, manifest = row
    cost = {"log2_n": log2_n, "r": r, "p": p, "insecure_fast": insecure_fast}
    about = json.dumps(cost | {"salt": salt.hex()})
    connection.execute("DROP TABLE info")
    connection.execute(INFO_TABLE)
    row = (store_id, party, manifest, "passphrase", about, "", locked_key)
    connection.execute("INSERT INTO info VALUES (?, ?, ?, ?, ?, ?, ?)", row)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {5: _root_keys_of_all_kinds}

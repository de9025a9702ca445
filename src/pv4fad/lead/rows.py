"""The lead's rows as it sees them: who stands on which side, what it knew before them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel
from pv4fad.evidence.judgement import EvidenceRows
from pv4fad.evidence.strata import AccountHistory
from pv4fad.forest.pairs import AccountIndex
from pv4fad.hashing.keyed import tree_of
from pv4fad.protocol.tables import AccountKey, TableAccounts, assign_tables
from pv4fad.schema import Schema
from pv4fad.tables.earlier import column_codes
from pv4fad.tables.features import FeatureTable, compute_features
from pv4fad.tables.sides import KEY_COLUMNS, Sides, structural_columns
from pv4fad.tables.source import Problem, refuse
from pv4fad.workers import available_cores


def account_index(sides: Sides, n_trees: int, start: int = 0) -> tuple[pl.DataFrame, AccountIndex]:
    """The distinct accounts (Holder, Id) of the rows from `start` on, in the order of their names,
    and which of them each side of each row has."""
    everyone = pl.concat(sides.side_keys(start))
    bare = sides.account[start:].T.reshape(-1)
    codes = column_codes(everyone["Holder"]) * (int(bare.max(initial=0)) + 1) + bare
    _, some_row, number = np.unique(codes, return_index=True, return_inverse=True)
    names = list(KEY_COLUMNS)
    keys = everyone[some_row].with_row_index("number").sort(names)
    key_of_number = np.empty(keys.height, np.int64)
    key_of_number[keys["number"].to_numpy()] = np.arange(keys.height)
    bare_ids = keys["Id"].unique().sort()
    index = AccountIndex(
        key_of_number[number].reshape(sides.schema.n_sides, -1).T,
        keys["Id"].rank("dense").to_numpy().astype(np.int64) - 1,
        tree_of(bare_ids.cast(pl.Binary).to_list(), n_trees),
    )
    return keys.select(names), index


def inside_federation(keys: pl.DataFrame, directory: Mapping[str, str]) -> NDArray[np.bool_]:
    """Whether each account may be at a bank that takes part.

    `directory`: what rows call a bank → bank.
    """
    # A bank that is unknown may be any of them.
    holder = keys["Holder"]
    return (holder.is_null() | holder.is_in(list(directory))).to_numpy()


def fingerprint(table: pl.DataFrame) -> str:
    """SHA-256 of the rows of a table, however its file spells them; a hash of those of columns."""
    with ThreadPoolExecutor(available_cores()) as threads:
        return hashlib.sha256(b"".join(threads.map(_column_digest, table))).hexdigest()


def _column_digest(column: pl.Series) -> bytes:
    """SHA-256 of its name, of where it has values, and of the values."""
    if isinstance(column.dtype, (pl.String, pl.Categorical, pl.Enum)):
        texts = column.cast(pl.String)
        sizes = texts.str.len_bytes().cast(pl.Int64).fill_null(-1).to_numpy()
        parts = [b"texts", sizes.tobytes(), texts.str.join().item().encode()]
    else:
        values = column.to_physical().fill_null(0).to_numpy()
        parts = [values.dtype.str.encode(), column.is_null().to_numpy().tobytes(), values.tobytes()]
    digest = hashlib.sha256()
    for part in (column.name.encode(), *parts):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


@dataclass(frozen=True)
class LeadData:
    """The lead's rows, and what it knows about the federation."""

    schema: Schema
    rows: pl.DataFrame = field(repr=False)
    directory: Mapping[str, str]
    """What rows call a bank → bank."""

    @property
    def labels(self) -> NDArray[np.int8]:
        return self.rows[self.schema.rows.label].to_numpy().astype(np.int8)

    @cached_property
    def sides(self) -> Sides:
        return Sides(self.schema, self.rows)

    def tables(self, keys: pl.DataFrame, n_trees: int) -> dict[str, TableAccounts]:
        """Which table each account belongs to."""
        some_unknown = keys["Holder"].null_count() > 0
        return assign_tables(
            list(keys.iter_rows()), self.directory, n_trees, broadcast=some_unknown
        )


# Rows to score.


@dataclass(frozen=True)
class NewRows:
    """Rows in the order given, with what the lead knew before them."""

    schema: Schema = field(repr=False)
    rows: pl.DataFrame = field(repr=False)
    """Without labels."""
    features: FeatureTable = field(repr=False)
    keys: Sequence[AccountKey] = field(repr=False)
    """Each account once."""
    key_of: NDArray[np.int64] = field(repr=False)  # (rows, sides): numbers into `keys`
    is_first: NDArray[np.bool_] = field(repr=False)
    """True if the accounts of the row never dealt with each other before."""
    stratum: NDArray[np.int64] = field(repr=False)  # (rows, sides)
    hit: NDArray[np.bool_] = field(repr=False)  # (rows, sides)

    def __len__(self) -> int:
        return len(self.key_of)

    @property
    def ids(self) -> pl.Series:
        return self.rows[self.schema.rows.id]

    @cached_property
    def fingerprint(self) -> str:
        """Of the rows."""
        return fingerprint(self.rows)

    def key_table(self) -> pl.DataFrame:
        """The accounts as a table: Holder, Id."""
        return pl.DataFrame(self.keys, schema=KEY_COLUMNS, orient="row")

    def askable(self, directory: Mapping[str, str], *, broadcast: bool = True) -> NDArray[np.bool_]:
        """(rows, sides): whether the account may be at a bank that takes part.

        `broadcast`: whether that can be asked of all banks together, where the bank is unknown.
        """
        inside = [broadcast if holder is None else holder in directory for holder, _ in self.keys]
        result: NDArray[np.bool_] = np.array(inside, np.bool_)[self.key_of]
        return result

    def evidence_rows(
        self, local: LocalModel, directory: Mapping[str, str], *, broadcast: bool = True
    ) -> EvidenceRows:
        """As the default model judges them; `directory`: what rows call a bank → bank."""
        return EvidenceRows(
            local.score(self.features.values),
            self.is_first,
            self.stratum,
            self.hit,
            self.key_of,
            self.askable(directory, broadcast=broadcast),
        )


def new_rows(
    schema: Schema,
    rows: pl.DataFrame,
    history: pl.DataFrame,
    features: FeatureTable | None = None,
) -> NewRows:
    """What the lead knows about new rows.

    Features continue from `history`, and events that began there keep their holders.  Labels of
    the new rows are not looked at.  `features`, if they are known already.
    """
    rows = rows.drop(schema.rows.label, strict=False)
    if features is None:
        features = compute_features(schema, rows, history)
    names, n_known = structural_columns(schema), history.height
    sides = Sides(
        schema, pl.concat([history.select(names), rows.select(names)], how="vertical_relaxed")
    )
    keys, index = account_index(sides, 1, n_known)
    is_first = sides.first_dealings()[n_known:]
    labels = history[schema.rows.label].to_numpy().astype(np.int8)
    account = sides.account
    # Accounts that training has not seen have no history there.
    n_accounts = int(account.max(initial=-1)) + 1
    past, account = AccountHistory.of(account[:n_known], labels, n_accounts), account[n_known:]
    return NewRows(
        schema,
        rows,
        features,
        list(keys.iter_rows()),
        index.key_of,
        is_first,
        past.strata(account, is_first),
        past.hits(account),
    )


def require_untrained(
    schema: Schema, rows: pl.DataFrame, history: pl.DataFrame, source: Path | str = "the rows"
) -> None:
    """Refuse rows of training: what their own labels say about their accounts would judge them."""
    name = schema.rows.id
    known = rows[name].is_in(history[name].implode())
    n, first = int(known.sum()), known.arg_max()
    if n and first is not None:
        refuse([Problem(source, "an id that a row of training has", name, n, first + 1)])

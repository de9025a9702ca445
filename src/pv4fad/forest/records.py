"""At a bank: which atom of each family an account record has (protocol.md §11.1).

The flag family reads the flag.  The meaning of a private slot is the bank's own, and stays there:
a comparison of one column with a constant, in a file of the bank (TOML, or JSON of the same form):

    [slots.risk]                    # one bank: fines of 1000 or more
    column = "FineAmount"
    operator = ">="
    value = 1000

An atom depends on the account's own record only; the privacy claim rests on that, and a predicate
on single columns cannot do otherwise.  A missing value satisfies no comparison: atom `no`.
"""

from __future__ import annotations

import json
import operator
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.atoms import CLASSES, FLAGS, SLOT_ATOMS, AtomSchema
from pv4fad.payments.schema import MILD_FLAGS, NO_FLAG
from pv4fad.validated import ValidatedModel

FLAG_COLUMN = "Flags"

_COMPARISONS: dict[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class SlotPredicate(ValidatedModel):
    """`column operator value`: true is atom `yes`, false or missing is `no`."""

    column: str
    operator: Literal["<", "<=", ">", ">=", "==", "!="]
    value: StrictBool | StrictInt | StrictFloat | datetime | date | StrictStr


def load_slots(path: Path) -> dict[str, SlotPredicate]:
    """The bank's own slot definitions from a .toml or .json file."""
    text = path.read_text(encoding="utf-8")
    try:
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ParameterError(f"{path}: {error}") from None
    slots: Any = content.get("slots") if isinstance(content, dict) else None
    if not isinstance(slots, dict) or not all(isinstance(slot, dict) for slot in slots.values()):
        raise ParameterError(f"{path}: expected a table [slots.NAME] for each private slot")
    predicates = {}
    for name, fields in slots.items():
        try:
            predicates[name] = SlotPredicate(**fields)
        except ParameterError as error:
            raise ParameterError(f"{path}: slot {name!r}: {error}") from None
    return predicates


def record_atoms(
    schema: AtomSchema, accounts: pl.DataFrame, slots: Mapping[str, SlotPredicate]
) -> NDArray[np.int64]:
    """(n_accounts, n_families): the one atom that each record has in each family."""
    columns = []
    for family, first in zip(schema.families, schema.offsets, strict=False):
        if family == FLAGS:
            within = _flag_atoms(accounts)
        elif family.name == CLASSES:
            columns.append(_class_atoms(accounts, family.atoms))
            continue
        elif family.atoms != SLOT_ATOMS:
            raise ParameterError(f"family {family.name!r} is neither the flags nor a private slot")
        elif family.name not in slots:
            raise ParameterError(
                f"this run uses the private slot {family.name!r}: "
                f"define [slots.{family.name}] in slots.toml beside every bank's account file"
            )
        else:
            within = holds(accounts, family.name, slots[family.name])
        columns.append(within.astype(np.int64) + first)
    return np.stack(columns, axis=1)


def _flag_atoms(accounts: pl.DataFrame) -> NDArray[np.integer]:
    if FLAG_COLUMN not in accounts.columns:
        raise DataError(f"the account table has no column {FLAG_COLUMN!r}")
    flags = accounts[FLAG_COLUMN].cast(pl.String)
    atoms = flags.cast(pl.Enum(FLAGS.atoms), strict=False).to_physical()
    if atoms.null_count():
        row = int(atoms.is_null().arg_max() or 0)
        raise DataError(
            f"account table, row {row + 1}: flag {flags[row]!r} is none of {', '.join(FLAGS.atoms)}"
        )
    return atoms.to_numpy()


def _class_atoms(accounts: pl.DataFrame, names: tuple[str, ...]) -> NDArray[np.int64]:
    """The class of each record by its flag; -1 for a class that the banks do not provide."""
    of_flag = [
        "ordinary" if code == NO_FLAG else "mild" if code in MILD_FLAGS else "severe"
        for code in FLAGS.atoms
    ]
    position = np.array([names.index(name) if name in names else -1 for name in of_flag], np.int64)
    classes: NDArray[np.int64] = position[_flag_atoms(accounts)]
    return classes


def holds(accounts: pl.DataFrame, slot: str, predicate: SlotPredicate) -> NDArray[np.uint8]:
    """1 where a record satisfies the predicate: the position of `yes` among the slot atoms."""
    if predicate.column not in accounts.columns:
        raise ParameterError(
            f"slot {slot!r}: the account table has no column {predicate.column!r}; "
            f"it has {', '.join(accounts.columns)}"
        )
    dtype = accounts.schema[predicate.column]
    column = pl.col(predicate.column)
    if dtype.is_float():
        column = column.fill_nan(None)  # polars would order NaN above every number
    elif dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    constant = _constant_like(dtype, slot, predicate)
    holds = _COMPARISONS[predicate.operator](column, constant).fill_null(False)
    return accounts.select(holds.cast(pl.UInt8)).to_series().to_numpy()


def _constant_like(dtype: pl.DataType, slot: str, predicate: SlotPredicate) -> Any:
    """The constant of a predicate as a value that can be compared with the column."""
    value, equality = predicate.value, predicate.operator in ("==", "!=")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype.is_numeric() and is_number:
        return value
    if dtype == pl.Boolean and isinstance(value, bool) and equality:
        return value
    if dtype in (pl.String, pl.Categorical, pl.Enum) and isinstance(value, str) and equality:
        return value
    if dtype in (pl.Date, pl.Datetime) and isinstance(value, date | str):
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            raise ParameterError(f"slot {slot!r}: {value!r} is not a date (YYYY-MM-DD)") from None
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            raise ParameterError(f"slot {slot!r}: give the date without a time zone")
        return moment
    raise ParameterError(
        f"slot {slot!r}: column {predicate.column!r} ({dtype}) cannot be compared by "
        f"{predicate.operator} with a constant of type {type(value).__name__}"
    )

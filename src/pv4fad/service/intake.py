"""From the body of a request to checked payments, with one clear error for each bad one.

JSON bodies have the column names of the schema; a body of pacs.008 messages is read as files are
(`payments.iso20022`).  Values are text or numbers, as in a CSV file, and go through the same
checks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.pacs008 import read_columns
from pv4fad.payments.schema import TRANSACTION_COLUMNS
from pv4fad.schema import Schema
from pv4fad.tables.columns import Column
from pv4fad.tables.reading import row_columns, with_namespaces
from pv4fad.tables.sheet import read_sheet

MOST_TEXT = 2_000  # characters of a value
MOST_ID = 256

Raw = dict[str, str | None]

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def payment_columns(schema: Schema) -> tuple[Column, ...]:
    """The columns of a payment to be judged: all but the label."""
    columns = TRANSACTION_COLUMNS if schema.format == "payments" else row_columns(schema)
    return tuple(column for column in columns if column.name != schema.rows.label)


def from_json(schema: Schema, body: bytes) -> Raw:
    """One payment."""
    return _raw(schema, _parsed(body))


def many_from_json(schema: Schema, body: bytes, most: int) -> list[Raw]:
    """A JSON array of payments, or one payment in each line (NDJSON)."""
    if body.lstrip()[:1] == b"[":
        found = _parsed(body)
    else:
        lines = [line for line in body.splitlines() if line.strip()]
        _require_not_too_many(len(lines), most)
        found = [_parsed(line, f"line {n}: ") for n, line in enumerate(lines, 1)]
    if not found:
        raise DataError("the body has no payment")
    _require_not_too_many(len(found), most)
    raws = []
    for number, content in enumerate(found, 1):
        try:
            raws.append(_raw(schema, content))
        except DataError as error:
            raise DataError(f"payment {number}: {error}") from None
    return raws


def many_from_xml(schema: Schema, body: bytes, most: int) -> list[Raw]:
    """The transactions of pacs.008 messages."""
    if schema.format != "payments":
        raise DataError("only payments can come as pacs.008 messages")
    raws: list[Raw] = []
    for batch in read_columns(Path("the body"), Counter(), body):
        raws += batch.to_dicts()
        _require_not_too_many(len(raws), most)
    return raws


@dataclass(frozen=True)
class Checked:
    """Payments that came together: the good ones, and what is wrong with the others."""

    rows: pl.DataFrame = field(repr=False)
    """Typed, in order; without the bad ones."""
    numbers: list[int] = field(repr=False)
    """Which of the payments given each row is."""
    problems: Mapping[int, str] = field(repr=False)
    """What is wrong with the others."""


def check(schema: Schema, raws: Sequence[Raw]) -> Checked:
    """The checks of files; names the field of a payment that is wrong, never its value."""
    columns = payment_columns(schema)
    texts = pl.DataFrame(
        {column.name: [raw.get(column.name) for raw in raws] for column in columns},
        schema={column.name: pl.String for column in columns},
    )
    sheet = read_sheet(texts, columns, name="the payments")
    problems: dict[int, str] = {}
    for found, mask in sheet.found.items():
        for number in mask.arg_true():
            problems.setdefault(number, f"{found.column}: {found.reason}")
    good = ~sheet.bad_rows()
    rows = with_namespaces(schema, sheet.rows.filter(good))
    return Checked(rows, good.arg_true().to_list(), problems)


def plain(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [
        {
            name: value.isoformat() if isinstance(value, date | datetime) else value
            for name, value in row.items()
        }
        for row in rows.iter_rows(named=True)
    ]


def digest(payment: Mapping[str, Any]) -> str:
    """The same for the same payment, however it was spelled."""
    text = json.dumps(payment, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _parsed(body: bytes, where: str = "") -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise DataError(f"{where}not well-formed JSON in UTF-8") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _raw(schema: Schema, content: Any) -> Raw:
    if not isinstance(content, dict):
        raise DataError("a payment is a JSON object with the columns of the schema as names")
    known = {column.name for column in payment_columns(schema)}
    raw: Raw = {}
    for name, value in content.items():
        if name == schema.rows.label:
            continue  # replayed rows may have one; nothing looks at it
        if name not in known:
            raise DataError(f"{name[:64]!r} is no field of a payment")
        raw[name] = _text(name, value, MOST_ID if name == schema.rows.id else MOST_TEXT)
    return raw


def _text(name: str, value: Any, most: int) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{name}: must be a text, a number or null")
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > most:
        raise DataError(f"{name}: longer than {most:,} characters")
    if _UNFIT.search(text):
        raise DataError(f"{name}: has a control character, or half of a surrogate pair")
    return text


def _require_not_too_many(n: int, most: int) -> None:
    if n > most:
        raise DataError(f"{n:,} payments or more in one request: at most {most:,}")

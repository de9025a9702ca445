"""From the body of a request to checked payments, with one clear error for each bad one.

JSON bodies have the column names of the schema; a body of pacs.008 messages is read as files are
(`payments.iso20022`).  Values are text or numbers, as in a CSV file, and go through the same
checks.

A checked payment also has a *text*: its values as a JSON array, in the order of the columns.  It is
the same for the same payment, however that was spelled, and is what the journal keeps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.pacs008 import read_columns
from pv4fad.payments.schema import TRANSACTION_COLUMNS
from pv4fad.schema import Schema
from pv4fad.tables.columns import Column
from pv4fad.tables.parsing import Parser, plain_table
from pv4fad.tables.reading import row_columns, with_namespaces

MOST_TEXT = 2_000  # characters of a value
MOST_ID = 256

Raw = dict[str, str | None]

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class Checked:
    """Payments that came together: the good ones, and what is wrong with the others."""

    rows: pl.DataFrame = field(repr=False)
    """Typed, in order; without the bad ones."""
    texts: list[str] = field(repr=False)
    """Of each row."""
    numbers: list[int] = field(repr=False)
    """Which of the payments given each row is."""
    problems: Mapping[int, str] = field(repr=False)
    """What is wrong with the others."""


class Intake:
    """Of payments to be judged: they have all columns of the schema but the label."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        columns = TRANSACTION_COLUMNS if schema.format == "payments" else row_columns(schema)
        self._columns = [_of_any_text(one) for one in columns if one.name != schema.rows.label]
        self.names = tuple(column.name for column in self._columns)
        self._most = dict.fromkeys(self.names, MOST_TEXT) | {schema.rows.id: MOST_ID}
        # Made once: to describe the checks takes longer than to make them.
        self._parser = Parser.of(self._columns, dict.fromkeys(self.names, pl.String()))

    # Bodies.

    def from_json(self, body: bytes) -> Raw:
        """One payment."""
        return self._raw(_parsed(body), may_be_unfit=_may_be_unfit(body))

    def many_from_json(self, body: bytes, most: int) -> list[Raw]:
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
        return self._raws(found, may_be_unfit=_may_be_unfit(body))

    def many_from_xml(self, body: bytes, most: int) -> list[Raw]:
        """The transactions of pacs.008 messages."""
        if self._schema.format != "payments":
            raise DataError("only payments can come as pacs.008 messages")
        found: list[dict[str, str | None]] = []
        for batch in read_columns(Path("the body"), Counter(), body):
            found += batch.to_dicts()
            _require_not_too_many(len(found), most)
        return self._raws(found, may_be_unfit=True)

    def _raws(self, found: Sequence[Any], *, may_be_unfit: bool) -> list[Raw]:
        raws = []
        for number, content in enumerate(found, 1):
            try:
                raws.append(self._raw(content, may_be_unfit=may_be_unfit))
            except DataError as error:
                raise DataError(f"payment {number}: {error}") from None
        return raws

    def _raw(self, content: Any, *, may_be_unfit: bool) -> Raw:
        if not isinstance(content, dict):
            raise DataError("a payment is a JSON object with the columns of the schema as names")
        raw: Raw = {}
        for name, value in content.items():
            most = self._most.get(name)
            if most is None:
                if name == self._schema.rows.label:
                    continue  # replayed rows may have one; nothing looks at it
                raise DataError(f"{name[:64]!r} is no field of a payment")
            raw[name] = None if value is None else _text(name, value, most)
            if may_be_unfit and _UNFIT.search(raw[name] or ""):
                raise DataError(f"{name}: has a control character, or half of a surrogate pair")
        return raw

    # Checks.

    def check(self, raws: Sequence[Raw]) -> Checked:
        """The checks of files; names the field of a payment that is wrong, never its value."""
        cells = {name: [raw.get(name) for raw in raws] for name in self.names}
        rows, problems = plain_table(self._columns, cells), dict[int, str]()
        if rows is None:
            rows, problems = self._parsed(cells)
        numbers = [number for number in range(len(raws)) if number not in problems]
        if problems:
            rows = rows[numbers]
        rows = with_namespaces(self._schema, rows)
        return Checked(rows, texts_of(rows), numbers, problems)

    def _parsed(self, cells: Mapping[str, list[str | None]]) -> tuple[pl.DataFrame, dict[int, str]]:
        """All rows, and what is wrong with the bad ones."""
        table = pl.DataFrame(cells, schema=dict.fromkeys(self.names, pl.String))
        parsed, problems = self._parser.parse(table), dict[int, str]()
        for check in self._parser.checks:
            mask = parsed[check.mask]
            if mask.any():
                for number in mask.arg_true():
                    problems.setdefault(number, f"{check.column}: {check.reason}")
        return parsed.select(self.names), problems

    def rows_of(self, names: Sequence[str], texts: Sequence[str]) -> pl.DataFrame:
        """The rows that these texts are of; `names`: of the columns in them."""
        if tuple(names) != self.names:
            raise DataError("the payments of the journal are of another schema: begin a new one")
        types = {one.name: _type_in_text(one.dtype) for one in self._columns}
        values = [json.loads(text) for text in texts]
        found = pl.DataFrame(values, schema=types, orient="row", infer_schema_length=None)
        return found.with_columns(_typed(one.name, one.dtype) for one in self._columns)


def texts_of(rows: pl.DataFrame) -> list[str]:
    """Each row as a JSON array."""
    return [
        json.dumps(row, default=_iso, separators=(",", ":"), ensure_ascii=False)
        for row in rows.iter_rows()
    ]


def _iso(value: date) -> str:
    return value.isoformat()


def digest(text: str) -> str:
    """Of a payment, by its text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _of_any_text(column: Column) -> Column:
    """Without a table of all texts that ever came: it would grow as long as the service runs."""
    if not isinstance(column.dtype, pl.Categorical):
        return column
    return replace(column, kind=replace(column.kind, dtype=pl.String()))


def _type_in_text(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if dtype.is_temporal() else dtype


def _typed(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return column.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit=dtype.time_unit)
    return column.str.to_date() if isinstance(dtype, pl.Date) else column.cast(dtype)


def _parsed(body: bytes, where: str = "") -> Any:
    try:
        # As text: from bytes, Python reads other encodings and halves of surrogate pairs, too.
        text = body.decode("utf-8-sig")
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_names_once)
    except DataError as error:
        raise DataError(f"{where}{error}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{where}not well-formed JSON in UTF-8") from None


def _names_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Who reads the last of two values and who reads the first would see different payments."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DataError("an object has a name twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _may_be_unfit(body: bytes) -> bool:
    """JSON has control characters and half surrogate pairs in escaped form only, but for DEL."""
    return b"\\" in body or b"\x7f" in body


def _text(name: str, value: Any, most: int) -> str:
    if type(value) not in (str, int, float):
        raise DataError(f"{name}: must be a text, a number or null")
    text: str = value if type(value) is str else json.dumps(value)
    if len(text) > most:
        raise DataError(f"{name}: longer than {most:,} characters")
    return text


def _require_not_too_many(n: int, most: int) -> None:
    if n > most:
        raise DataError(f"{n:,} payments or more in one request: at most {most:,}")

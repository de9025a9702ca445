"""Everybody's data, read as the schema says: the lead's rows, each holder's records.

How files are laid out is `payments.challenge`.  Beside a holder's file, `rules.toml` has its own
rules for the classes of its records; they are applied where the file is read, and of the holder's
columns only Holder, Id and Class go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.rows import fingerprint
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.loading import load_account_classes, load_transactions
from pv4fad.payments.schema import TRANSACTION_SCHEMA
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import Name
from pv4fad.protocol.roles import NOT_BANKS
from pv4fad.rules import Rules, read_rules
from pv4fad.schema import KEY_SEPARATOR, Schema
from pv4fad.tables.reading import read_records, read_rows, row_columns
from pv4fad.tables.several import Several

RULES_FILE = "rules.toml"

_NAME: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True)
class SplitData:
    """All data of one split, read and checked."""

    rows: pl.DataFrame = field(repr=False)
    records: Mapping[str, pl.DataFrame] = field(repr=False)
    """Of each holder: Holder, Id, Class."""


def load_rows(schema: Schema, source: Any, *, labels_required: bool) -> pl.DataFrame:
    """The lead's rows, from a file (a Path) or a frame."""
    if schema.format == "payments":
        require_payment_columns(schema)
        return load_transactions(source, labels_required=labels_required).frame
    return read_rows(schema, source, labels_required=labels_required).frame


def require_payment_columns(schema: Schema) -> None:
    """Refuse a schema of payments whose rows have a column that payments do not have."""
    for column in row_columns(schema):
        if column.name not in TRANSACTION_SCHEMA:
            raise ParameterError(
                f"schema {schema.name!r}: format is payments, which have no column {column.name!r}"
            )


def load_holder(schema: Schema, path: Path, holder: str) -> pl.DataFrame:
    """A holder's records: Holder, Id, Class."""
    return classified(schema, path, holder, holder_rules(schema, path))


def holder_rules(schema: Schema, path: Path) -> Rules | None:
    """A holder's own rules, beside its file; None if it has none."""
    file = path.with_name(RULES_FILE)
    rules = read_rules(file) if file.is_file() else None
    if rules is not None:
        try:
            rules.check_classes(schema.record.classes)
        except ParameterError as error:
            raise ParameterError(f"{file}: {error}") from None
    return rules


def classified(
    schema: Schema, source: Any, holder: str, rules: Rules | None = None
) -> pl.DataFrame:
    """Records, from a file (a Path) or a frame, with the class that the rules give them: the
    holder's, else those of the schema."""
    if schema.format == "payments":
        return load_account_classes(source, schema, rules, name=f"the records of {holder}")
    return read_records(schema, source, holder=holder, rules=rules).frame


def load_holders(schema: Schema, split: Path, holders: Iterable[str]) -> dict[str, pl.DataFrame]:
    """The records of every holder of a run, in the order of the run."""
    files, wanted = read_partition(split).accounts, list(holders)
    if set(files) != set(wanted):
        raise DataError(
            f"{split} has the {schema.words.forms['holders']} {', '.join(files)};"
            f" the run has {', '.join(wanted)}"
        )
    return {holder: load_holder(schema, files[holder], holder) for holder in wanted}


def load_split(schema: Schema, folder: Path) -> SplitData:
    """The data of all parties in a split; the error names all problems."""
    partition, several = read_partition(folder), Several()
    records: dict[str, pl.DataFrame] = {}
    for holder, path in partition.accounts.items():
        with several.reading():
            require_holder_name(holder)
            records[holder] = load_holder(schema, path, holder)
    with several.reading():
        rows = load_rows(schema, partition.transactions, labels_required=partition.labels_required)
    several.refuse()
    return SplitData(rows, records)


def require_holder_name(name: Any) -> None:
    """Refuse a name that no party can have, or that another one has."""
    try:
        _NAME.validate_python(name, strict=True)
    except ValidationError:
        raise ParameterError(
            f"holder {name!r}: a name has letters, digits, dots, dashes and underscores, up to 64"
        ) from None
    if name in NOT_BANKS:
        raise ParameterError(f"holder {name!r}: another party has this name")


def bank_records(schema: Schema, records: pl.DataFrame) -> BankRecords:
    """A holder's records (Holder, Id, Class; each once) as it brings them to a run."""
    ids = records.select(
        qualified=pl.concat_str("Holder", "Id", separator=KEY_SEPARATOR).cast(pl.Binary),
        bare=pl.col("Id").cast(pl.Binary),
    )
    names = records["Class"].cast(pl.String)
    classes = names.cast(pl.Enum(schema.record.classes), strict=False).to_physical()
    if classes.has_nulls():
        raise DataError(
            f"column Class: {names.filter(classes.is_null())[0]!r} is no class of the schema"
            f" {schema.name!r}"
        )
    return BankRecords(
        tuple(ids["qualified"]),
        tuple(ids["bare"]),
        classes.to_numpy().astype(np.int16),
        schema,
        records_fingerprint(records),
    )


def records_fingerprint(records: pl.DataFrame) -> str:
    """The version of a holder's records: equal if and only if the records are."""
    return fingerprint(records.sort("Holder", "Id"))


def bank_directory(records: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """What rows call a bank → the bank, as the banks of a federation make it known."""
    directory: dict[str, str] = {}
    for bank, frame in records.items():
        if frame.is_empty():
            raise DataError(f"{bank} has no records: leave it out of the federation")
        for name in frame["Holder"].unique().sort():
            if directory.setdefault(name, bank) != bank:
                raise DataError(f"{name} is at {directory[name]} and at {bank}: only one can be it")
    return directory


def all_records(schema: Schema, records: Mapping[str, pl.DataFrame]) -> dict[str, BankRecords]:
    """The records of every bank of a federation on one machine."""
    return {bank: bank_records(schema, frame) for bank, frame in records.items()}

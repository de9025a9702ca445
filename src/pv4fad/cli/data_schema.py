"""The schema of the data that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pv4fad.errors import DataError
from pv4fad.payments.challenge import SPLITS, is_split
from pv4fad.payments.schema import SCHEMA
from pv4fad.schema import Schema, read_schema
from pv4fad.tables.folder import is_table_split

SCHEMA_FILE = "schema.toml"

SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="What rows, sides and classes are (docs/use/schema.md)."
        " Default: schema.toml in DIR, or the columns of the payments challenge.",
    ),
]


def data_schema(folder: Path, given: Path | None) -> Schema:
    """The schema that was given, that of the folder (of a split: also of the folder around it), or
    that of payments."""
    if given is not None:
        return read_schema(given)
    places = [folder, folder.parent] if is_split(folder) else [folder]
    for place in places:
        if (place / SCHEMA_FILE).is_file():
            return read_schema(place / SCHEMA_FILE)
    if any(is_table_split(split) for split in (folder, *(folder / name for name in SPLITS))):
        raise DataError(
            f"{folder}: has no {SCHEMA_FILE}, which says what rows, sides and classes are; "
            "write one (docs/use/schema.md), or name it with --schema"
        )
    return SCHEMA

"""The schema of the data that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pv4fad.payments.schema import SCHEMA
from pv4fad.schema import Schema, read_schema

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
    """The schema that was given, that of the folder, or that of payments."""
    if given is not None:
        return read_schema(given)
    own = folder / SCHEMA_FILE
    return read_schema(own) if own.is_file() else SCHEMA

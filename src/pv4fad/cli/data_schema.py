"""The schema of the data that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pv4fad.errors import DataError
from pv4fad.payments.challenge import SPLITS, is_split
from pv4fad.payments.schema import SCHEMA
from pv4fad.run.folder import RunFolder
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

SchemaOfRun = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Refuse a run of another schema than this. Default: schema.toml in DIR, if there is"
        " one.",
    ),
]


def data_schema(folder: Path, given: Path | None) -> Schema:
    """The schema that was given, that of the folder (of a split: also of the folder around it), or
    that of payments."""
    if (file := given or _schema_file(folder)) is not None:
        return read_schema(file)
    if any(is_table_split(split) for split in (folder, *(folder / name for name in SPLITS))):
        raise DataError(
            f"{folder}: has no {SCHEMA_FILE}, which says what rows, sides and classes are; "
            "write one (docs/use/schema.md), or name it with --schema"
        )
    return SCHEMA


def require_schema_of(run: RunFolder, folder: Path | None, given: Path | None) -> None:
    """Whoever uses a run takes its schema; one that was given or is with the data has to be the
    same, but for its words."""
    document, file = run.read(), given or (None if folder is None else _schema_file(folder))
    if document is None or file is None:
        return
    trained, found = document.data_schema, read_schema(file)
    if found.digest != trained.digest:
        raise DataError(
            f"{file}: the schema {found.name}, digest {found.digest[:12]}, is not that of the run"
            f" in {run.path}, which is {trained.name}, digest {trained.digest[:12]}: give data of"
            " the run's schema, or train a new run"
        )


def _schema_file(folder: Path) -> Path | None:
    places = [folder, folder.parent] if is_split(folder) else [folder]
    files = [place / SCHEMA_FILE for place in places]
    return next((file for file in files if file.is_file()), None)

"""Where each party's table is in a folder of data that are not in the challenge's layout.

    schema.toml                          what rows, sides and classes are
    {train,test}/lead/rows.csv           the lead's rows
    {train,test}/<holder>/records.csv    a holder's records
    {train,test}/<holder>/rules.toml     its own rules, if it has any

Tables are .csv or .parquet.  The name of a folder is the name of the holder.
"""

from __future__ import annotations

from pathlib import Path

from pv4fad.errors import DataError

LEAD = "lead"
ROWS, RECORDS = "rows", "records"
_ENDINGS = (".csv", ".parquet")


def is_table_split(folder: Path) -> bool:
    """Whether this is a split in this layout."""
    return (folder / LEAD).is_dir()


def table_files(folder: Path) -> tuple[Path, dict[str, Path]]:
    """The lead's file, and each holder's by its name; their contents are not read."""
    parts = sorted(part for part in folder.iterdir() if part.is_dir() and part.name[0] != ".")
    holders = {part.name: _table(part, RECORDS) for part in parts if part.name != LEAD}
    return _table(folder / LEAD, ROWS), holders


def _table(folder: Path, name: str) -> Path:
    files = [folder / (name + ending) for ending in _ENDINGS]
    found = [file for file in files if file.is_file()]
    if len(found) != 1:
        both = f"{files[0].name} and {files[1].name}"
        either = f"{files[0].name} nor {files[1].name}"
        problem = f"has both {both}" if found else f"has neither {either}"
        raise DataError(f"{folder}: {problem}; it needs one of them")
    return found[0]

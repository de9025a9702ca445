"""Transactions from one kind of file to another: challenge CSV, Parquet, pacs.008.

A file, a folder of messages, or a whole challenge folder; in the latter the banks' files become
CSV or Parquet as well, or stay as they are, and every other file is copied.  The target must be
new, and appears in one piece or not at all.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.challenge import (
    PARTITIONS_FILE,
    PAYMENT_NETWORK_ID,
    SCENARIOS_FILE,
    SPLITS,
    find_partitions,
    read_partition,
    write_table,
)
from pv4fad.payments.iso20022.labels import labels_beside, labels_name, plain_name
from pv4fad.payments.iso20022.messages import ENDINGS, is_messages
from pv4fad.payments.iso20022.writer import write_folder, write_messages
from pv4fad.payments.loading import load_transactions
from pv4fad.payments.schema import LABEL
from pv4fad.tables.sheet import OnBadRows
from pv4fad.tables.source import open_table, read_table

Target = Literal["csv", "parquet", "pacs008"]
Progress = Callable[[str, int], object]  # 'reading' or 'writing', and rows more


@dataclass(frozen=True)
class Conversion:
    """What to convert to, and how."""

    to: Target
    labels: Path | None = None
    per_file: int = 50_000  # messages, in a folder of pacs.008
    compress: bool = False
    on_bad_rows: OnBadRows = "raise"
    progress: Progress = lambda _, __: None


def convert(source: Path, target: Path, conversion: Conversion) -> list[str]:
    """Convert; returns a line for everything that was dropped, changed or counted."""
    if not source.exists():
        raise DataError(f"{source}: not found")
    whole = _is_challenge(source)
    _require_sensible(source, target, conversion, whole=whole)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
        new = Path(work) / target.name
        if whole:
            notes = _convert_challenge(source, new, conversion)
        else:
            notes = _convert_transactions(source, new, conversion, labels_required=False)
        _require_new(target)  # still
        # The labels first: without the messages they do no harm.
        for made in sorted(Path(work).iterdir(), key=lambda path: path == new):
            made.rename(target.with_name(made.name))
    return notes


def _is_challenge(source: Path) -> bool:
    marks = (SCENARIOS_FILE, PARTITIONS_FILE, *SPLITS)
    return source.is_dir() and any((source / mark).exists() for mark in marks)


def _require_sensible(source: Path, target: Path, how: Conversion, *, whole: bool) -> None:
    if whole and how.labels is not None:
        raise ParameterError("--labels: a challenge folder has its labels inside; leave it out")
    if how.per_file < 1:
        raise ParameterError(f"--per-file {how.per_file}: give 1 or more")
    if not whole and how.to != "pacs008" and target.suffix.lower() != f".{how.to}":
        raise ParameterError(f"{target}: with --to {how.to} the name has to end in .{how.to}")
    if how.to == "pacs008" and target.suffix.lower() in (".csv", ".parquet"):
        raise ParameterError(f"{target}: name an .xml or .xml.gz file, or a new folder")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise ParameterError(f"{target}: lies inside of {source}; choose another place")
    _require_new(target)
    if not whole and how.to == "pacs008":
        _require_new(target.with_name(labels_name(target)))


def _require_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise DataError(f"{path}: already exists; choose another name")


def _convert_transactions(
    source: Path, target: Path, how: Conversion, *, labels_required: bool
) -> list[str]:
    table = load_transactions(
        source,
        labels_required=labels_required,
        on_bad_rows=how.on_bad_rows,
        labels=how.labels,
        after_rows=lambda n: how.progress("reading", n),
    )
    frame, notes = table.frame, table.report.notes()
    if not is_messages(source):
        how.progress("reading", frame.height)
    if how.to != "pacs008":
        write_table(target, frame)
        how.progress("writing", frame.height)
        return notes + (_lost_in_csv(frame) if how.to == "csv" else [])
    if table.has_labels:
        write_table(target.with_name(labels_name(target)), frame.select("MessageId", LABEL))

    def after_rows(n: int) -> None:
        how.progress("writing", n)

    if target.name.lower().endswith(ENDINGS):
        return notes + write_messages(target, frame, after_rows)
    return notes + write_folder(
        target, frame, per_file=how.per_file, compress=how.compress, after_rows=after_rows
    )


def _lost_in_csv(frame: pl.DataFrame) -> list[str]:
    n = int((frame["Timestamp"].dt.microsecond() != 0).sum())
    return [f"column Timestamp: fractions of a second dropped in {n:,} rows"] if n else []


def _convert_challenge(source: Path, target: Path, how: Conversion) -> list[str]:
    splits = find_partitions(source)
    if other := [split for split in splits if not (split / PARTITIONS_FILE).is_file()]:
        raise DataError(f"{other[0]}: has no {PARTITIONS_FILE}; only payments can be converted")
    partitions = [read_partition(folder) for folder in splits]
    replaced = {source / PARTITIONS_FILE for source in (p.folder for p in partitions)}
    for partition in partitions:
        replaced.add(partition.transactions)
        if is_messages(partition.transactions):
            replaced.add(labels_beside(partition.transactions) or partition.transactions)
        if how.to != "pacs008":
            replaced |= set(partition.accounts.values())

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder) / name in replaced}

    shutil.copytree(source, target, ignore=left_out)
    notes = []
    for partition in partitions:
        folder = target / partition.folder.relative_to(source)
        name = plain_name(partition.transactions)
        name += "" if how.to == "pacs008" else f".{how.to}"
        entries = {PAYMENT_NETWORK_ID: {"data_path": name}}
        notes += _convert_transactions(
            partition.transactions,
            folder / PAYMENT_NETWORK_ID / name,
            how,
            labels_required=partition.labels_required,
        )
        for client, path in partition.accounts.items():
            entries[client] = {"data_path": _convert_accounts(path, folder / client, how.to)}
        text = json.dumps(entries, indent=2) + "\n"
        (folder / PARTITIONS_FILE).write_text(text, encoding="utf-8")
    return notes


def _convert_accounts(path: Path, folder: Path, to: Target) -> str:
    """The name of a bank's converted file; with all its columns, also those of its own."""
    if to == "pacs008":
        return path.name
    name = f"{path.stem}.{to}"
    if path.suffix.lower() == f".{to}":
        shutil.copyfile(path, folder / name)
    else:
        write_table(folder / name, read_table(path, open_table(path, path)))
    return name

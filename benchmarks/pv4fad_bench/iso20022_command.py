"""`pv4fad bench iso20022`: writing and reading pacs.008, on generated payments."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from pv4fad.cli.console import out, progress_bar
from pv4fad.errors import ParameterError
from pv4fad.files import require_writable, write_whole
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.iso20022.messages import message_files, read_messages
from pv4fad.payments.iso20022.writer import write_folder
from pv4fad.payments.schema import LABEL
from pv4fad.workers import available_cores, peak_memory_bytes
from pv4fad_bench.xml_parsers import parser_seconds


@dataclass
class _Times:
    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def _clock() -> Iterator[_Times]:
    """Wall time, and processor time with that of the processes that have ended."""
    times, wall, cpu = _Times(), time.perf_counter(), _cpu_s()
    yield times
    times.wall_s = round(time.perf_counter() - wall, 1)
    times.cpu_s = round(_cpu_s() - cpu, 1)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def command(
    *,
    transactions: Annotated[
        int, typer.Option(min=1_000, help="About so many; the first days of them are used.")
    ] = 1_000_000,
    files: Annotated[int, typer.Option(min=1, help="Files in the folder.")] = 10,
    gzip: Annotated[bool, typer.Option("--gzip", help="Compress them.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes that read; one per core if not set.")
    ] = None,
    parsers: Annotated[
        bool, typer.Option("--parsers", help="Also time other XML parsers, on one of the files.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.", dir_okay=False)
    ] = None,
) -> None:
    """Write payments as pacs.008, read them back, and compare.

    Reading includes all checks of the loader. The rows are those of TRANSACTION_SCHEMA.
    """
    require_writable(json_file)
    if parsers and gzip:
        raise ParameterError("--parsers: is for files that are not compressed")
    n_workers = min(files, available_cores()) if workers is None else workers
    with progress_bar() as bars, tempfile.TemporaryDirectory() as place:
        task = bars.add_task("generating", total=3)
        made = generate_tables(Settings(transactions, 5, Difficulty.CHALLENGE, seed=0))
        frame = made.train.transactions
        folder = Path(place) / "messages"
        bars.update(task, description="writing", completed=1)
        with _clock() as writing:
            write_folder(folder, frame, per_file=-(-frame.height // files), compress=gzip)
        size = sum(file.stat().st_size for file in message_files(folder))
        bars.update(task, description="reading", completed=2)
        with _clock() as reading:
            sheet = read_messages(folder, workers=n_workers)
        bars.update(task, description="read", completed=3)
        others = parser_seconds(message_files(folder)[0]) if parsers else {}
    if sheet.found or not sheet.rows.equals(frame.drop(LABEL)):
        raise ParameterError("what was read is not what was written: this is a bug")
    figures = {
        "transactions": frame.height,
        "files": files,
        "compressed": gzip,
        "megabytes": round(size / 1e6),
        "write: wall s": writing.wall_s,
        "write: CPU s": writing.cpu_s,
        "reading processes": n_workers,
        "read: wall s": reading.wall_s,
        "read: CPU s": reading.cpu_s,
        "peak of this process, MiB": peak_memory_bytes() >> 20,
    } | {f"one file, {name}: CPU s": seconds for name, seconds in others.items()}
    if json_file is not None:
        write_whole(json_file, json.dumps(figures, indent=2) + "\n")
    table = Table(box=SIMPLE, show_header=False, pad_edge=False)
    for name, value in figures.items():
        table.add_row(name, f"{value:,}" if not isinstance(value, bool) else str(value).lower())
    out.print(table)
    out.print("all rows are equal to those that were written: checked")

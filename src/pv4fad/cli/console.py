"""How commands talk to the reader: where text goes, how errors end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

# Results go to standard output, progress and errors to standard error: `--json` can be piped.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """The machine-readable result of a `--json` command: one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


@contextmanager
def progress_bar() -> Iterator[Bars]:
    """A progress display on standard error; one line per task where there is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=err, transient=False) as bars:
        yield bars


def fail(message: str, code: int) -> None:
    """One line on standard error, then the exit code."""
    err.print(f"[bold red]error:[/] {message}", soft_wrap=True)
    raise SystemExit(code)

"""What the demos share: a folder of their own, and command lines that are shown and then run."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click
import typer

from pv4fad.cli.console import out
from pv4fad.errors import DataError


def fresh_folder(folder: Path, mark: str, about: str, command: str) -> None:
    """Create an empty folder with a file `mark`; a folder that has one already is replaced.

    `command`: of the demo, for error messages.
    """
    advice = f"choose another place: pv4fad {command} FOLDER"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder}: is not a folder; {advice}")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / mark).is_file():
            raise DataError(f"{folder}: holds files that the demo did not make; {advice}")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / mark).write_text(about, encoding="utf-8")


def show_and_run(root: click.Command, words: Sequence[str | Path], *, quiet: bool) -> None:
    """Print a command line and run it; `quiet` hides what it prints.

    If the command fails or is interrupted, the demo ends with its exit code.
    """
    line = [str(word) for word in words]
    out.print(f"$ pv4fad {shlex.join(line)}", style="bold", markup=False, soft_wrap=True)
    with out.capture() if quiet else nullcontext():
        code = root.main(line, prog_name="pv4fad", standalone_mode=False)
    if code:
        raise typer.Exit(code)

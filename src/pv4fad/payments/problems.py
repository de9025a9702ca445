"""What is wrong with a file, in one line each, and what was left out of a table that was loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pv4fad.errors import DataError


@dataclass(frozen=True)
class Problem:
    """Something wrong with a file: with all of it, with a column, or with some rows.

    `what` completes '<column>: ' or, if rows are counted, '<column>: n rows have '.  A data row is
    counted from 1, the first row after the header (line numbers would be off after a line break
    inside quotes).
    """

    path: Path
    what: str
    column: str | None = None
    n_rows: int | None = None
    example_row: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}: " + (f"column {self.column}: " if self.column else "")
        if self.n_rows is None:
            return where + self.what
        rows = "1 row has" if self.n_rows == 1 else f"{self.n_rows:,} rows have"
        return (
            f"{where}{rows} {self.what}; first: data row {self.example_row} "
            "(counted from 1 after the header)"
        )


@dataclass(frozen=True)
class LoadReport:
    """How a loaded table differs from its file: nothing is left out without being counted here."""

    path: Path
    n_rows_read: int
    n_rows_dropped: int = 0
    dropped: tuple[Problem, ...] = ()  # per reason; a row with two reasons is counted in both
    n_repeated: int = 0  # accounts listed again with the same flag; the first listing is kept
    extra_columns: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """One line for each thing that was left out."""
        lines = [f"dropped: {problem}" for problem in self.dropped]
        if self.n_rows_dropped:
            lines.append(
                f"{self.path}: {self.n_rows_dropped:,} of {self.n_rows_read:,} rows dropped"
            )
        if self.n_repeated:
            lines.append(
                f"{self.path}: {self.n_repeated:,} repeated listings of an account ignored"
            )
        if self.extra_columns:
            lines.append(f"{self.path}: extra columns ignored: {', '.join(self.extra_columns)}")
        return lines


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one DataError with a line per problem, if there are any."""
    if problems:
        raise DataError("\n".join(str(problem) for problem in problems))

"""A generated data set as a challenge folder, with the kinds of its anomalies beside it.

    DIR/scenarios.txt
    DIR/scenario01/train/...  and  DIR/scenario01/test/...   as in `data.challenge`
    DIR/scenario01/anomaly_kinds_{train,test}.csv            MessageId, Kind, VisibleAtBank

Test transactions keep their Label column, for evaluation; nothing that scores them may read it.
The kinds are for analysis only and stand outside the parties' folders.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.challenge import SCENARIOS_FILE, write_partition, write_scenarios
from pv4fad.payments.generate.facts import Fact, calibration_facts
from pv4fad.payments.generate.leakcheck import ColumnLeak, leak_check
from pv4fad.payments.generate.tables import (
    TABLE_STEPS,
    GeneratedTables,
    Report,
    Settings,
    generate_tables,
)
from pv4fad.payments.schema import NO_FLAG

SCENARIO = "scenario01"
STEPS = (*TABLE_STEPS, "files", "leak check")


@dataclass(frozen=True)
class GeneratedFolder:
    """What was written, in numbers, and what single columns give away."""

    folder: Path
    rows: dict[str, int]  # by split
    anomalies: dict[str, int]  # by split
    accounts: int
    flagged_accounts: int
    facts: tuple[Fact, ...]
    leaks: tuple[ColumnLeak, ...]


def kinds_file(split: str) -> str:
    """The file with the kinds of a split's anomalies."""
    return f"anomaly_kinds_{split}.csv"


def generate(
    folder: Path, settings: Settings, *, force: bool = False, report: Report = lambda _: None
) -> GeneratedFolder:
    """Generate a data set into `folder`: all of it, or nothing if anything goes wrong."""
    place = folder.resolve()
    _refuse_to_overwrite(place, force=force)
    tables = generate_tables(settings, report)
    report("files")
    _put_in_place(place, tables)
    report("leak check")
    accounts = pl.concat(tables.accounts.values())
    return GeneratedFolder(
        folder=folder,
        rows={"train": tables.train.transactions.height, "test": tables.test.transactions.height},
        anomalies={"train": tables.train.kinds.height, "test": tables.test.kinds.height},
        accounts=accounts.height,
        flagged_accounts=int((accounts["Flags"] != NO_FLAG).sum()),
        facts=calibration_facts(tables),
        leaks=leak_check(tables),
    )


def _refuse_to_overwrite(place: Path, *, force: bool) -> None:
    if place.exists() and not place.is_dir():
        raise DataError(f"{place}: is a file; choose a new or empty folder")
    if not place.exists() or not any(place.iterdir()):
        return
    # Even when forced, only a data set is replaced, never a folder that holds something else.
    if not (place / SCENARIOS_FILE).is_file():
        raise DataError(f"{place}: holds other files; choose a new or empty folder")
    if not force:
        raise DataError(f"{place}: already holds a data set; use --force to replace it")


def _put_in_place(place: Path, tables: GeneratedTables) -> None:
    """Write beside the place, then move there: no reader ever sees half a data set."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as work:
        new, old = Path(work) / "new", Path(work) / "old"
        _write(new, tables)
        if place.exists():
            place.rename(old)
        try:
            new.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise


def _write(folder: Path, tables: GeneratedTables) -> None:
    scenario = folder / SCENARIO
    for split, messages in (("train", tables.train), ("test", tables.test)):
        write_partition(scenario / split, messages.transactions, tables.accounts)
        messages.kinds.write_csv(scenario / kinds_file(split))
    write_scenarios(folder, [SCENARIO])

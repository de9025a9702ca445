"""Beside a file of predictions: which run made them, and what that cost.

predictions.csv           what was predicted
predictions.record.json   this

The lead's own, like the predictions.  A scoring that was interrupted and carried on has
the costs of its last call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pv4fad import __version__
from pv4fad.errors import DataError, ParameterError
from pv4fad.files import write_whole
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.validated import ValidatedModel


class Learned(ValidatedModel):
    """What a scoring told the lead about holders' records, in numbers."""

    rows: int
    rows_asked: int
    """For whose sake something was asked."""
    records: int
    records_asked: int
    alerts: int
    holder_alerts: int
    """Alerts that the answer of a holder made, or raised to a higher level."""


class ScoringRecord(ValidatedModel):
    """Where predictions come from."""

    format: Literal["pv4fad scoring"] = "pv4fad scoring"
    version: Literal[3] = 3
    program: str = __version__
    run_id: str
    scoring: Literal["decisions", "votes"]
    alert_share: float | None = None
    learned: Learned | None = None
    """What this scoring told the lead; None: vote totals."""
    records_known: int = 0
    """Of which some bit is known since all records were matched last, over all scorings."""
    records_positive: int = 0
    """Of these, with a positive one: the record is not ordinary."""
    positive_answers: dict[str, int] | None = None
    """Metered: of each bank in this scoring, which the aggregator has learnt."""
    phases: tuple[PhaseCost, ...]
    traffic: tuple[Traffic, ...]


def record_path(predictions: Path) -> Path:
    """Where the record of a file of predictions is."""
    return predictions.with_suffix(".record.json")


def write_record(predictions: Path, record: ScoringRecord) -> None:
    """All of it or nothing; for the eyes of the owner only."""
    text = record.model_dump_json(indent=2) + "\n"
    write_whole(record_path(predictions), text, private=True)


def read_record(predictions: Path) -> ScoringRecord | None:
    """None if there is none: predictions may come from elsewhere."""
    path = record_path(predictions)
    try:
        return ScoringRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, ParameterError, UnicodeDecodeError):
        raise DataError(f"{path}: damaged, or of another version") from None


def require_run(predictions: Path, run_id: str) -> ScoringRecord | None:
    """The record, if there is one; DataError if another run made these predictions."""
    record = read_record(predictions)
    if record is not None and record.run_id != run_id:
        raise DataError(
            f"{predictions}: made by the run {record.run_id}, and this is the run {run_id}"
        )
    return record

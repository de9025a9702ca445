"""Predictions are not taken for those of another run."""

import pytest

from pv4fad.errors import DataError
from pv4fad.evaluation.scored import default_predictions
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.run.scoring_record import (
    ScoringRecord,
    read_record,
    record_path,
    require_run,
    write_record,
)


def a_record(run_id: str) -> ScoringRecord:
    return ScoringRecord(
        run_id=run_id,
        scoring="decisions",
        phases=(PhaseCost(phase="score", seconds=1.5, messages=2, bytes=100),),
        traffic=(
            Traffic(kind="x", sender="bank", receiver="payment-network", messages=2, bytes=100),
        ),
    )


def test_what_was_written_is_read_again_and_is_for_its_owner_only(tmp_path):
    file = tmp_path / "predictions.csv"
    for run_id in ("one", "two"):
        write_record(file, a_record(run_id))
        assert read_record(file) == a_record(run_id)
    assert [one.name for one in tmp_path.iterdir()] == ["predictions.record.json"]
    assert record_path(file).stat().st_mode & 0o077 == 0


def test_predictions_without_a_record_are_anybodys(tmp_path):
    assert require_run(tmp_path / "predictions.csv", "one") is None


def test_a_damaged_record_is_refused(tmp_path):
    record_path(tmp_path / "predictions.csv").write_text('{"version": 1}')
    with pytest.raises(DataError, match="damaged, or of another version"):
        read_record(tmp_path / "predictions.csv")


def test_predictions_of_another_run_are_not_evaluated(run, data, document, pv4fad):
    write_record(default_predictions(run), a_record("another"))
    code, _, error = pv4fad("evaluate", run, data)
    assert code == 2
    assert f"made by the run another, and this is the run {document.run_id}" in error
    write_record(default_predictions(run), a_record(document.run_id))
    assert pv4fad("evaluate", run, data)[0] == 0


def test_what_is_outside_the_claim_is_said_with_the_measures(run, data, document, pv4fad):
    for words in ((), ("--json",)):
        text = pv4fad("evaluate", run, data, *words)[1]
        assert "is outside the" in text
        assert "one bit for each kind" in " ".join(text.split())

"""The default model with few and with many classes of records."""

import json

import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.hashing.table_size import TableLayout
from pv4fad.protocol.parameters import LOG2_DISTANCE, RunParameters
from pv4fad_bench.evidence_workload import EvidenceWorkload

SMALL = ["--pns-accounts", "1500", "--bank-accounts", "1200", "--workers", "0"]
N_CELLS = 18


def run(*arguments):
    return CliRunner().invoke(app, ["bench", "classes", *arguments])


def test_every_class_has_its_counts_and_its_round_and_results_are_right(tmp_path):
    file = tmp_path / "classes.json"
    result = run(*SMALL, "--classes", "2,5", "--json", str(file))
    assert result.exit_code == 0, result.output
    few, many = json.loads(file.read_text())["points"]
    for point, n_classes in ((few, 2), (many, 5)):
        assert point["workload"]["n_classes"] == n_classes
        assert point["counts"] == N_CELLS * n_classes
        assert point["rounds"] == n_classes
        assert (
            f"all {N_CELLS * n_classes} counts equal those of a trusted third party"
            in (point["checks"])
        )
        assert all(point["checks"].values())
        assert {"match", "count", "score"} <= set(point["phases"])
    # A bit of an account costs the same whatever it is about, and there is a round for each class.
    assert many["score_bytes"] == pytest.approx(few["score_bytes"] * 5 / 2, rel=0.01)
    assert many["train_bytes"] > few["train_bytes"]
    for line in ("rounds of a scoring", "match, wall s (CPU s)", "training, bytes", "equal"):
        assert line in result.output


def test_a_wrong_result_fails(monkeypatch):
    right = EvidenceWorkload.true_counts
    monkeypatch.setattr(EvidenceWorkload, "true_counts", lambda self: right(self) + 1)
    result = run(*SMALL, "--classes", "2")
    assert result.exit_code == 1
    assert "WRONG" in result.output


@pytest.mark.parametrize("classes", ["1", "4,33", "a"])
def test_numbers_of_classes_that_records_cannot_have_are_refused(classes):
    result = run("--classes", classes)
    assert result.exit_code == 2
    assert "--classes" in result.output


def parameters_of(n_classes, n_accounts):
    """Of a run with one bank, without generating so many accounts."""
    small = EvidenceWorkload(1000, 1000, n_classes=n_classes).parameters()
    layout = TableLayout.for_accounts(n_accounts, 1, n_tables=1)
    table = small.tables[0].model_copy(update={"layout": layout})
    return RunParameters(**small.model_dump(exclude={"tables"}), tables=(table,))


def test_the_most_classes_keep_the_bounds_of_a_run_with_a_million_accounts():
    parameters = parameters_of(32, 1_000_000)
    assert parameters.sizes.n_sets == parameters.sizes.n_atoms == 32
    assert parameters.log2_distance < LOG2_DISTANCE

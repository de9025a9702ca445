"""The paper's table and the scaling study: checked results, kept rows, honest arithmetic."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.errors import DataError, ParameterError
from pv4fad.report.render import render_drawing
from pv4fad_bench import table
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.figures import details, scaling_figure, table_cells, table_page
from pv4fad_bench.harness import Phase, Traffic
from pv4fad_bench.paper_workload import PaperWorkload
from pv4fad_bench.scaling import Point, ScalingReport, study
from pv4fad_bench.table import PAPER, FinishedRows, PaperRow, RowResult, Setting, one_leaf, rows_of
from pv4fad_bench.whole import WholeJob, run_whole_job

TINY = PaperRow(2, 1000, 1000, 2000, 18, 53)


def run(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def small_rows(monkeypatch):
    """Two rows of one block, with a forest of a few leaves."""
    rows = (TINY, PaperRow(8, 1000, 3000, 2000, 21, 53))
    monkeypatch.setattr(table, "PAPER", rows)
    monkeypatch.setattr(table, "GROUPS_PER_TREE", 1)
    monkeypatch.setattr(table, "PER_ACCOUNT", 2)
    return rows


def test_rows_are_checked_kept_and_not_run_twice(small_rows, tmp_path, monkeypatch):
    json_file, html_file = tmp_path / "table.json", tmp_path / "table.html"
    options = ["--workers", "0", "--json", str(json_file)]
    result = run("table", "--rows", "2", *options)
    assert result.exit_code == 0, result.output
    for claim in (
        *("all 12 counts", "all 24 labels", "all 2,000 vote totals"),
        *("default model: all 54 opened counts", "default model: all 2,000 decisions"),
    ):
        assert f"row 2: {claim} equal those of a trusted third party: checked" in result.output
    assert "tells kinds of accounts apart" in result.output
    (row,) = json.loads(json_file.read_text())["rows"]
    assert set(row["job"]["phases"]) == {"propose", "match", "count", "compare", "labels", "score"}
    assert set(row["decisions"]["phases"]) == {"propose", "match", "count", "score"}
    assert set(row["job"]["party_cpu_s"]) == {"payment-network", "aggregator", "bank01"}
    assert all(seconds > 0 for seconds in row["job"]["party_cpu_s"].values())
    phases_cpu_s = sum(phase["cpu_s"] for phase in row["job"]["phases"].values())
    assert sum(row["job"]["party_cpu_s"].values()) == pytest.approx(phases_cpu_s, rel=0.2)

    monkeypatch.setattr(table, "run_row", lambda row, *_: result_of(row, Setting(workers=0)))
    result = run("table", "--rows", "2,8", *options, "--html", str(html_file))
    assert result.exit_code == 0, result.output
    assert "Row 2 is in" in result.output.replace("\n", " ")
    first, second = json.loads(json_file.read_text())["rows"]
    assert (first, second["row"]["number"]) == (row, 8)
    page = html_file.read_text()
    assert "3k" in page
    assert "<script" not in page


def test_an_interrupted_table_shows_and_keeps_what_is_finished(small_rows, tmp_path, monkeypatch):
    def interrupted(row, setting, advance):
        if row.number == 8:
            raise KeyboardInterrupt
        return result_of(row)

    monkeypatch.setattr(table, "run_row", interrupted)
    monkeypatch.setattr(table, "estimate", lambda rows, setting: (1.0, 2))
    file = tmp_path / "table.json"
    result = run("table", "--rows", "2,8", "--json", str(file))
    assert result.exit_code == 130
    assert "these rows are finished" in result.output
    assert [one["row"]["number"] for one in json.loads(file.read_text())["rows"]] == [2]


def test_rows_of_another_setting_are_not_mixed_in(tmp_path):
    file = tmp_path / "table.json"
    rows = FinishedRows(file)
    rows.add(result_of(TINY))
    again = FinishedRows(file)
    again.load(Setting())
    assert again.results == rows.results
    for other in (Setting(scale=0.5), Setting(workers=1)):
        with pytest.raises(DataError, match="another version, scale or number of workers"):
            FinishedRows(file).load(other)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"code": "0"}))
    with pytest.raises(DataError, match="another version"):
        FinishedRows(file).load(Setting())
    file.write_text("{}")
    with pytest.raises(DataError, match="holds no rows"):
        FinishedRows(file).load(Setting())


def result_of(row: PaperRow, setting: Setting | None = None) -> RowResult:
    job = WholeJob(
        phases={
            "propose": Phase(1.0, 1.0),
            "match": Phase(20.0, 30.0),
            "count": Phase(5.0, 6.0),
            "compare": Phase(3.0, 4.0),
            "labels": Phase(1.0, 1.0),
            "score": Phase(60.0, 100.0),
        },
        party_cpu_s={"payment-network": 80.0, "bank01": 62.0},
        traffic=(Traffic("encrypted-table", "payment-network", "bank01", 3, 10**6),) * 2,
        peak_bytes={"parties": 10**9},
        floor_s=64.0,
        checks={"equal": True},
    )
    names = ("propose", "match", "count", "score")
    phases = {name: Phase(seconds, seconds) for seconds, name in enumerate(names, 1)}
    decisions = dataclasses.replace(job, phases=phases)
    return RowResult(row, setting or Setting(), 816, job, decisions, leaf_s=10.0)


def test_ratios_are_the_papers_minutes_over_our_seconds():
    result = result_of(PAPER[1])
    assert result.training_ratio == pytest.approx(18 * 60 / 30)
    assert result.inference_ratio == pytest.approx(53)
    assert result.job.overhead_ratio == pytest.approx(85 / 64)
    assert result.paper_style_s == 10 * 816 * 2
    assert result.job.bytes_by_direction() == {"network → bank01": 2 * 10**6}
    expected = ("2", "100k", "100k", "1M", "30.0", "18", "36", "60.0", "53", "53", "6.0", "4.0")
    assert table_cells(result) == expected
    assert "PV4FAD" in table_page([result])
    assert {one.rows[0][0] for one in details([result])} == {"2"}


def test_rows_of_smaller_size_are_not_compared_with_the_papers():
    result = result_of(PAPER[1], Setting(scale=0.1))
    assert table_cells(result)[6] == table_cells(result)[9] == "–"
    assert table_cells(result)[1] == "10k"


def test_one_leaf_has_its_share_of_the_accounts_and_all_of_the_banks():
    leaf = one_leaf(PaperWorkload(68_000, 5000, groups_per_tree=34))
    assert (leaf.pns_accounts, leaf.bank_accounts) == (1000, 5000)
    assert leaf.parameters().sizes.n_atoms == 1


@pytest.mark.parametrize("rows", ["0", "9", "a", "1,,2"])
def test_rows_that_do_not_exist_are_refused(rows):
    result = run("table", "--rows", rows)
    assert result.exit_code != 0
    assert "row" in result.output + str(result.exception)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5])
def test_a_scale_out_of_range_is_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        Setting(scale=scale)


def test_rows_are_taken_once_in_the_order_given():
    assert [row.number for row in rows_of([8, 2, 8])] == [8, 2]


def test_exponents_are_the_slopes_of_the_costs():
    def points(varied, train, score):
        return [
            Point(varied, n, {"train": n**train, "score": 3 * n**score}, {}, 0, {"equal": True})
            for n in (1000, 2000, 4000)
        ]

    report = ScalingReport("paper", (*points("banks", 1, 0.5), *points("red_leaves", 0, 2)))
    assert report.exponents["banks"] == pytest.approx({"train": 1, "score": 0.5})
    assert report.exponents["red_leaves"] == pytest.approx({"train": 0, "score": 2})
    figure = scaling_figure(report)
    assert "red leaves: train 0.00, score 2.00" in figure.description
    assert render_drawing(figure).count("<circle") == 2 * len(report.points)


def test_a_whole_job_with_two_banks_equals_the_trusted_third_party():
    steps = []
    job = run_whole_job(
        PaperWorkload(2000, 1500, n_banks=2, n_classes=2, n_trees=3, groups_per_tree=2),
        n_transactions=3000,
        per_account=2,
        workers=0,
        advance=lambda: steps.append(1),
    )
    assert job.checks == {
        "all 6 counts equal those of a trusted third party": True,
        "all 12 labels equal those of a trusted third party": True,
        "all 3,000 vote totals equal those of a trusted third party": True,
    }
    assert set(job.party_cpu_s) == {"payment-network", "aggregator", "bank01", "bank02"}
    assert len(steps) == 4  # a block and a batch for each bank


def test_a_whole_job_of_the_default_model_with_two_banks():
    steps = []
    job = run_whole_job(
        EvidenceWorkload(2000, 1500, n_banks=2),
        n_transactions=3000,
        per_account=2,
        workers=0,
        advance=lambda: steps.append(1),
    )
    assert all(job.checks.values())
    assert "all 3,000 decisions equal those of a trusted third party" in job.checks
    assert len(steps) == 8  # a block and three rounds for each bank


@pytest.mark.parametrize("model", ["evidence", "paper"])
def test_the_scaling_study_varies_one_size_at_a_time(model, tmp_path, monkeypatch):
    jobs = []

    def linear(workload, *, n_transactions, **_):
        jobs.append((workload, n_transactions))
        cost = workload.bank_accounts * workload.n_banks
        return dataclasses.replace(
            result_of(TINY).job, phases={"match": Phase(1.0, cost), "score": Phase(1.0, 5.0)}
        )

    monkeypatch.setattr("pv4fad_bench.scaling.run_whole_job", linear)
    json_file, figure = tmp_path / "scaling.json", tmp_path / "scaling.svg"
    files = ["--json", str(json_file), "--figure", str(figure)]
    result = run("scaling", "--accounts", "1000", "--model", model, *files)
    assert result.exit_code == 0, result.output
    assert "equal" in result.output
    base = study(1000, model).base
    assert len(jobs) == len(set(jobs)) == 11 + 2 * (model == "paper")  # the base is run once
    for workload, n_transactions in jobs:
        differs = [
            field.name
            for field in dataclasses.fields(base)
            if getattr(workload, field.name) != getattr(base, field.name)
        ]
        assert len(differs) <= 1 or differs[:2] == ["pns_accounts", "bank_accounts"]
        assert n_transactions % workload.pns_accounts == 0
    exponents = json.loads(json_file.read_text())["exponents"]
    assert {name: round(one["train"], 6) for name, one in exponents.items()} == {
        "pns_accounts": 0,
        "bank_accounts": 1,
        "banks": 1,
        "transactions": 0,
    } | ({"red_leaves": 0} if model == "paper" else {})
    assert figure.read_text().startswith("<svg")

"""`pv4fad evaluate` measures what was predicted, and says why where it cannot."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score
from tests.kit.scored_run import votes, write_data, write_run

from pv4fad.evaluation.evaluate import ALONE, JOINED, JOINT, Evaluation, measure
from pv4fad.evaluation.scored import default_predictions


def test_the_measures_are_those_of_the_predictions(run, data, tables, made, pv4fad):
    code, text, _ = pv4fad("evaluate", run, data, "--json")
    assert code == 0
    result = json.loads(text)
    labels = tables.test.transactions["Label"].to_numpy()
    assert (result["rows"], result["anomalies"]) == (len(labels), labels.sum())
    alone, joint = result["detectors"]
    for one, column in ((joint, "Score"), (alone, "LocalScore")):
        expected = average_precision_score(labels, made[column].to_numpy())
        assert one["average_precision"]["value"] == pytest.approx(expected)
    for at in joint["budgets"]:
        assert at["precision"] == 1
        assert at["found"] == at["alerts"]
    assert alone["average_precision"]["value"] < joint["average_precision"]["value"]
    assert "another draw of the noise" in result["intervals"]


def test_alerts_are_measured_as_they_are_and_the_payment_network_alone_gets_as_many(
    run, data, tables, made, pv4fad
):
    """Alone half of the anomalies have the highest scores; the run misses one, and errs once."""
    labels = tables.test.transactions["Label"].to_numpy()
    alone, joint = json.loads(pv4fad("evaluate", run, data, "--json")[1])["detectors"]
    n = int(labels.sum())
    assert joint["alerts"]["alerts"] == alone["alerts"]["alerts"] == n
    assert joint["alerts"]["found"] == n - 1
    assert joint["alerts"]["precision"] == joint["alerts"]["recall"] == pytest.approx((n - 1) / n)
    highest = np.argsort(-made["LocalScore"].to_numpy())[:n]
    assert alone["alerts"]["found"] == labels[highest].sum() < n - 1
    # The alerts themselves are counted, not as many of the highest scores.
    upside_down = made.with_columns(Alert=1 - made["Alert"])
    upside_down.write_csv(default_predictions(run))
    _, joint = json.loads(pv4fad("evaluate", run, data, "--json")[1])["detectors"]
    assert joint["alerts"]["found"] == 1


def test_one_alert_and_one_highest_score_are_said_in_the_singular(run, data, made, pv4fad):
    first = pl.int_range(pl.len()) == 0
    made.with_columns(Alert=first.cast(pl.Int8)).write_csv(default_predictions(run))
    said = " ".join(pv4fad("evaluate", run, data)[1].split())
    assert "the alert; alone" in said
    assert "the highest score (0.05 %)" in said
    assert "1 highest" not in said


def test_without_an_alert_there_are_scores_to_measure_and_no_alerts(run, data, made, pv4fad):
    made.with_columns(Alert=0).write_csv(default_predictions(run))
    detectors = json.loads(pv4fad("evaluate", run, data, "--json")[1])["detectors"]
    assert [one["alerts"] for one in detectors] == [None, None]
    assert "as many" not in pv4fad("evaluate", run, data)[1]


def test_votes_are_measured_too_with_the_majority_as_alerts(run, data, tables, pv4fad):
    votes(tables.test.transactions).write_csv(default_predictions(run))
    (joint,) = json.loads(pv4fad("evaluate", run, data, "--json")[1])["detectors"]
    assert joint["average_precision"]["value"] == 1
    assert joint["alerts"]["precision"] == joint["alerts"]["recall"] == 1


def test_the_table_shows_the_run_beside_the_payment_network_alone(run, data, pv4fad):
    code, text, _ = pv4fad("evaluate", run, data)
    assert code == 0
    for part in ("with the banks", "payment network alone", "ε = 1", "1.00 (0.98-1.00)", "alerts"):
        assert part in text


def test_predictions_in_another_order_are_measured_alike(run, data, made, tmp_path, pv4fad):
    other = tmp_path / "other.csv"
    made.reverse().write_csv(other)
    first, second = (
        pv4fad("evaluate", run, data, "--json", *words)[1]
        for words in ((), ("--predictions", other))
    )
    assert first == second


def test_without_a_local_score_there_is_no_comparison_and_it_says_so(run, data, made, pv4fad):
    made.select("MessageId", "Score").write_csv(default_predictions(run))
    code, text, _ = pv4fad("evaluate", run, data)
    assert code == 0
    assert "payment network alone" not in text.split("Intervals")[0]
    assert "have no column LocalScore" in text


def test_the_plot_is_one_svg_with_a_curve_for_each_detector(run, data, tmp_path, pv4fad):
    plot = tmp_path / "curves.svg"
    code, _, _ = pv4fad("evaluate", run, data, "--plot", plot)
    assert code == 0
    root = ET.fromstring(plot.read_text())  # noqa: S314  (written by us)
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{svg}svg"
    curves = [
        one for one in root.iter(f"{svg}path") if "V" in one.get("d") and "line" in one.get("class")
    ]
    assert len(curves) == 2
    assert "average precision 1.00" in root.find(f"{svg}desc").text
    assert pv4fad("evaluate", run, data, "--plot", plot)[0] == 2  # never overwritten


def test_everything_joined_is_shown_on_demand(run, data, pv4fad):
    assert "everything" not in pv4fad("evaluate", run, data)[1]
    code, text, _ = pv4fad("evaluate", run, data, "--joined")
    assert code == 0
    assert "everything" in text
    detectors = json.loads(pv4fad("evaluate", run, data, "--joined", "--json")[1])["detectors"]
    _, joint, joined = (one["average_precision"]["value"] for one in detectors)
    assert detectors[1]["to_joined"] == pytest.approx(joint / joined)
    assert "gap closed" in text


def test_the_gap_is_that_between_alone_and_joined():
    labels = np.array([1, 1, 0, 0, 0, 0], np.int8)
    ranks = {ALONE: [1, 6, 2, 3, 4, 5], JOINT: [4, 6, 5, 3, 2, 1], JOINED: [5, 6, 4, 3, 2, 1]}
    detectors = [measure(name, labels, np.array(scores, float)) for name, scores in ranks.items()]
    alone, joint, joined = (one.average_precision.value for one in detectors)
    assert alone < joint < joined == 1
    found = Evaluation(6, 2, tuple(detectors))
    expected = [0, (joint - alone) / (1 - alone), 1]
    assert [found.gap_closed(one) for one in detectors] == pytest.approx(expected)
    assert [found.to_joined(one) for one in detectors] == pytest.approx([alone, joint, 1])
    # Nothing to gain, or nothing to compare with: no share of it.
    no_gap = Evaluation(6, 2, (replace(detectors[2], name=ALONE), detectors[2]))
    assert no_gap.gap_closed(detectors[2]) is None
    assert Evaluation(6, 2, tuple(detectors[:2])).to_joined(detectors[1]) is None


def test_without_banks_nothing_can_be_joined(run, tables, tmp_path, pv4fad):
    data = write_data(tmp_path / "without", tables)
    for file in data.glob("*/*/partitions.json"):
        file.write_text(json.dumps({"swift": json.loads(file.read_text())["swift"]}))
    assert "nothing to join" in refusal(pv4fad, run, data, "--joined")


def test_a_plot_of_another_kind_is_refused(run, data, tmp_path, pv4fad):
    assert "ends in .svg" in refusal(pv4fad, run, data, "--plot", tmp_path / "curves.png")


def refusal(pv4fad, *arguments) -> str:
    code, _, error = pv4fad("evaluate", *arguments)
    assert code == 2
    return error


def test_a_run_that_was_not_scored_is_told_how(document, data, tmp_path, pv4fad):
    run = write_run(tmp_path / "run", document, None)
    error = refusal(pv4fad, run, data)
    assert "there are no predictions yet" in error
    assert "pv4fad score RUN DIR --out" in error


def test_absent_labels_are_named_before_the_work(run, tables, tmp_path, pv4fad, monkeypatch):
    too_early = lambda *_: pytest.fail("a model was fitted")  # noqa: E731
    monkeypatch.setattr("pv4fad.cli.evaluate.joined_scores", too_early)
    data = write_data(tmp_path / "unlabelled", tables)
    file = data / "scenario01" / "test" / "swift" / "swift_transaction_test_dataset.csv"
    pl.read_csv(file, infer_schema=False).drop("Label").write_csv(file)
    for options in ((), ("--joined",)):
        assert "the test split has no labels" in refusal(pv4fad, run, data, *options)


def test_a_period_without_anomalies_is_named(run, tables, tmp_path, pv4fad):
    data = write_data(tmp_path / "quiet", tables)
    file = data / "scenario01" / "test" / "swift" / "swift_transaction_test_dataset.csv"
    quiet = pl.read_csv(file, infer_schema=False).with_columns(Label=pl.lit("0"))
    quiet.write_csv(file)
    assert "no row of the test split is labelled 1" in refusal(pv4fad, run, data)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda table: table.head(5), "exactly one prediction for each row"),
        (lambda table: pl.concat([table, table.head(1)]), "each id once"),
        (lambda table: table.drop("Score"), "and Score"),
        (
            lambda table: table.with_columns(Score=pl.lit(None)),
            "Score has a value that is not a number",
        ),
        (lambda table: table.with_columns(Score=pl.lit("high")), "the predictions cannot be read"),
        (lambda table: table.with_columns(Alert=pl.lit(2)), "Alert has a value other than 0 and 1"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(run, data, made, *, pv4fad, spoil, problem):
    spoil(made).write_csv(default_predictions(run))
    assert problem in refusal(pv4fad, run, data)


def test_an_unfinished_run_is_refused(document, data, tmp_path, pv4fad):
    unfinished = document.model_copy(update={"state": "unfinished"})
    run = write_run(tmp_path / "run", unfinished, None)
    assert "not finished" in refusal(pv4fad, run, data)


def test_a_folder_that_is_no_run_is_refused(data, tmp_path, pv4fad):
    assert "holds no run" in refusal(pv4fad, tmp_path, data)

"""The report shows what there is, names what is missing, and cannot be injected into."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.evaluation.scored_run import predictions, write_data, write_run
from tests.report.conftest import HOSTILE, LONG, PASSPHRASE
from tests.report.test_markup import Seen
from tests.test_docs import kinds_in_code

from pv4fad.data.features import FeatureTable
from pv4fad.detection.stacked import OUTSIDE_THE_CLAIM
from pv4fad.report.leakage import LEARNS
from pv4fad.report.page import page
from pv4fad.report.unusual import unusual
from pv4fad.runs.document import SCORING_IS_OUTSIDE

FIGURES = {"precision-recall", "votes", "training", "training-bytes", "scoring", "scoring-bytes"}


@pytest.fixture(scope="module")
def seen(report):
    return Seen(report.read_text())


def figures(seen: Seen) -> set[str]:
    ids = (dict(attributes).get("id") or "" for tag, attributes in seen.elements if tag == "figure")
    return {one.removeprefix("figure-") for one in ids}


def test_a_whole_report_has_all_figures_each_described_in_words(seen):
    assert figures(seen) == FIGURES
    drawings = [dict(attributes) for tag, attributes in seen.elements if tag == "svg"]
    ids = {dict(attributes).get("id") for _, attributes in seen.elements}
    assert len(drawings) == len(FIGURES)
    for one in drawings:
        assert one["role"] == "img"
        title, description = one["aria-labelledby"].split()
        assert {title, description} <= ids


def test_the_whole_claim_is_there_and_what_is_outside_it(seen, document):
    words = " ".join(seen.words.split())
    for part in (
        document.privacy.claim,
        SCORING_IS_OUTSIDE,
        document.privacy.unit,
        f"sensitivity Δ{document.privacy.sensitivity}",
        "honest but curious",
        "what can go wrong by chance",
    ):
        assert " ".join(part.split()) in words


def test_queries_of_the_stacked_combiner_are_said_to_be_outside_the_claim(whole):
    stacked = whole.scoring.model_copy(
        update={"combiner": "stacked", "outside_the_claim": OUTSIDE_THE_CLAIM}
    )
    words = Seen(page(replace(whole, scoring=stacked))).words
    assert OUTSIDE_THE_CLAIM in words
    assert "from votes to scoresstacked" in words
    assert OUTSIDE_THE_CLAIM not in Seen(page(whole)).words


def test_every_bank_shows_what_it_has_spent(seen, document):
    for bank in document.parameters.banks:
        assert f"Entries of {bank}" in seen.words
        assert f"{bank}132" in seen.words  # spent 1 of 3, 2 left


def test_hostile_text_is_shown_as_text(seen):
    assert HOSTILE in seen.words
    assert LONG in seen.words
    assert "<b>x</b> < 3 (1 tree)" in seen.words
    assert {tag for tag, _ in seen.elements} & {
        "script",
        "img",
        "iframe",
        "link",
        "object",
    } == set()


def test_nothing_is_fetched_and_no_attribute_runs_anything(report, seen):
    for _, attributes in seen.elements:
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name not in {"src", "srcset", "style", "xlink:href", "action"}
            assert name != "href" or value.startswith("#")
    assert "@import" not in report.read_text()
    assert "url(" not in report.read_text()
    (policy,) = (
        dict(attributes)["content"]
        for tag, attributes in seen.elements
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attributes
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_alerts_are_the_highest_scores_with_what_may_be_shown(whole, seen):
    shown = re.search(r"The 20 highest alerts(.*?)public:", seen.words, re.DOTALL)
    highest = whole.predictions.sort("Score", descending=True, maintain_order=True).head(20)
    for message in highest["MessageId"]:
        assert message in shown[1]
    # What banks know, and who is behind an account, is nobody's business here.
    for column in ("OrderingAccount", "BeneficiaryAccount", "OrderingName"):
        for value in highest[column].cast(pl.String).drop_nulls():
            assert value not in shown[1]


def test_what_is_unusual_is_rare_on_either_end_and_the_rarest_comes_first():
    values = np.zeros((1000, 4), np.float32)
    values[:, 0] = np.arange(1000)
    values[7, 1] = 5  # the only one
    values[:15, 2] = -1
    features = FeatureTable(("rank", "only", "low", "same"), values)
    assert unusual(features, np.array([7, 500, 999])) == [
        "only 5 (0.1 %); rank 7 (0.8 %); low -1 (1.5 %)",
        "",
        "rank 999 (0.1 %)",
    ]


def test_every_kind_of_message_says_what_its_receiver_learns():
    assert set(LEARNS) == kinds_in_code()


def test_a_run_that_was_only_trained_gives_a_report_that_says_so(document, tmp_path, pv4fad):
    run = write_run(tmp_path / "run", document, None)
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, "--out", file)
    assert code == 0
    assert "nothing was scored yet: pv4fad score" in text
    assert "The ledgers of the banks: sealed: give --key-file" in text
    seen = Seen(file.read_text())
    assert figures(seen) == {"training", "training-bytes"}
    assert "Nothing was scored yet." in seen.words


def test_without_data_there_are_alerts_but_no_curves(document, tables, tmp_path, pv4fad):
    made = predictions(tables.test.transactions)
    run = write_run(tmp_path / "run", document, made)
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, "--out", file)
    assert code == 0
    assert "name the data: report RUN DIR" in text
    seen = Seen(file.read_text())
    assert figures(seen) == {"votes", "training", "training-bytes"}
    assert "There are no labels to compare with." in seen.words


def test_without_labels_there_are_payments_but_no_curves(document, tables, tmp_path, pv4fad):
    data = write_data(tmp_path / "unlabelled", tables)
    split = data / "scenario01" / "test" / "swift" / "swift_transaction_test_dataset.csv"
    pl.read_csv(split, infer_schema=False).drop("Label").write_csv(split)
    run = write_run(tmp_path / "run", document, predictions(tables.test.transactions))
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, data, "--joined", "--out", file)
    assert code == 0
    assert "How good the alerts are: the test split has no labels" in text
    assert figures(Seen(file.read_text())) == {"votes", "training", "training-bytes"}


def test_an_unfinished_run_is_reported_as_unfinished(document, tmp_path, pv4fad):
    started = document.model_copy(
        update={"state": "unfinished", "finished": None, "phases": (), "traffic": ()}
    )
    run = write_run(tmp_path / "run", started, None)
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, "--out", file)
    assert code == 0
    assert "training is not finished: pv4fad train --resume" in text
    assert "unfinished" in Seen(file.read_text()).words


def test_scores_without_details_still_make_a_report(document, tables, data, tmp_path, pv4fad):
    made = predictions(tables.test.transactions).select("MessageId", "Score")
    run = write_run(tmp_path / "run", document, made)
    file = tmp_path / "report.html"
    assert pv4fad("report", run, data, "--out", file)[0] == 0
    assert figures(Seen(file.read_text())) == {"precision-recall", "training", "training-bytes"}


def test_the_command_writes_the_whole_report(run, hostile_data, whole, tmp_path, pv4fad):
    key, file = tmp_path / "key", tmp_path / "report.html"
    key.write_text(PASSPHRASE + "\n")
    key.chmod(0o600)
    code, text, _ = pv4fad(
        "report", run, hostile_data, "--joined", "--out", file, "--key-file", key
    )
    assert code == 0
    assert "Not in it" not in text
    assert file.read_text() == page(whole)
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("wrong", ["no run", "no file", "there already"])
def test_a_mistake_ends_in_one_line(run, tmp_path, pv4fad, wrong):
    file = tmp_path / "report.html"
    words = {
        "no run": (tmp_path,),
        "no file": (run, "--predictions", tmp_path / "nowhere.csv"),
        "there already": (run,),
    }[wrong]
    if wrong == "there already":
        file.write_text("precious")
    code, _, error = pv4fad("report", *words, "--out", file)
    assert code == 2
    expected = {
        "no run": "holds no run",
        "no file": "no such file",
        "there already": "another file",
    }
    assert expected[wrong] in error
    assert not file.exists() or file.read_text() == "precious"

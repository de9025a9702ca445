"""The report shows what there is, names what is missing, and cannot be injected into."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.kit.kinds import kinds_in_code
from tests.kit.report_page import FIGURES, HOSTILE, LONG, PASSPHRASE, Seen
from tests.kit.scored_run import (
    finished_document,
    predictions,
    votes,
    write_data,
    write_run,
)

from pv4fad.evaluation.scored import default_predictions
from pv4fad.payments.features import FeatureTable
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.effective import effective_epsilon
from pv4fad.report.content import unusual
from pv4fad.report.leakage import LEARNS, parties
from pv4fad.report.page import page
from pv4fad.report.privacy import epsilon_rows
from pv4fad.run.document import SCORING_IS_OUTSIDE
from pv4fad.run.scoring_record import ScoringRecord, write_record

VOTES_TELL = "Vote totals, for each side of every payment. They tell kinds of accounts apart"
WEAK = "An ε above 2, or none, protects a single record little."


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
        SCHEMA.words(SCORING_IS_OUTSIDE["decisions"]),
        document.privacy.unit,
        f"sensitivity Δ{document.privacy.sensitivity}",
        "honest but curious",
        "what can go wrong by chance",
    ):
        assert " ".join(part.split()) in words


def test_what_scoring_told_is_there_in_numbers(seen):
    """Each number once in its own row: what was asked, what alerted, what is known now."""
    for row in (
        "payments for which it asked a bank1,23420,0016.2%",
        "payments that became alerts7720,0010.4%",
        "alerts that the answer of a bank made or raised117714.3%",
        "accounts that it asked about5439,8765.5%",
        "accounts about which it knows a bit, over all scorings678",
        "of these, known not to be ordinary96781.3%",
    ):
        assert row in seen.words
    assert VOTES_TELL not in seen.words


def test_metered_questions_tell_the_aggregator_numbers_and_the_page_says_which(whole):
    assert "positive answers" not in Seen(page(whole)).words
    parameters = whole.document.parameters.model_copy(update={"metered": True})
    metered = replace(
        whole,
        document=whole.document.model_copy(update={"parameters": parameters}),
        scoring=whole.scoring.model_copy(update={"positive_answers": {"bank01": 1204, "x": 0}}),
    )
    words = Seen(page(metered)).words
    assert "bank011,204" in words
    assert "how many answers of each bank are positive" in words
    assert "which accounts of that bank the payment network asked about with a positive" in words
    assert "all banks and the aggregator" not in words
    assert "it opens nothing" not in words


def test_epsilon_is_shown_with_one_honest_bank_too_and_with_what_a_guess_is_worth(document):
    """Known answer: ε = 1, Δ = 2, H = 2 is 2.275 with one honest bank; bounds are rounded up."""
    two = document.privacy.model_copy(
        update={
            "sensitivity": 2,
            "honest_banks": 2,
            "effective_epsilon": effective_epsilon(Fraction(1), 2, 2),
        }
    )
    assert epsilon_rows(two, 3, SCHEMA.words) == [
        ("at least H = 2 of 3 banks add their noise and keep it to themselves", "1", "73.2 %"),
        ("only one bank does: for its records", "2.28", "90.7 %"),
    ]
    assert epsilon_rows(two.model_copy(update={"honest_banks": 1}), 3, SCHEMA.words) == [
        ("the bank of the record adds its noise, whatever others do", "1", "73.2 %")
    ]


@pytest.mark.parametrize(("epsilon", "weak"), [("2", False), ("2.1", True), ("none", True)])
def test_a_large_epsilon_is_warned_of(whole, epsilon, weak):
    document = finished_document(epsilon=epsilon, model="paper")
    words = Seen(page(replace(whole, document=document))).words
    assert (WEAK in words) == weak
    assert ("there is no noisenone100 %" in words) == (epsilon == "none")


def test_votes_are_said_to_tell_kinds_of_accounts_apart(tables, data, tmp_path, pv4fad):
    document = finished_document(model="paper", scoring="votes")
    run = write_run(tmp_path / "run", document, votes(tables.test.transactions))
    record = ScoringRecord(run_id=document.run_id, scoring="votes", phases=(), traffic=())
    write_record(default_predictions(run), record)
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, data, "--out", file)
    assert code == 0
    assert "The payment network alone: the predictions have no column LocalScore" in text
    words = Seen(file.read_text()).words
    for part in (
        VOTES_TELL,
        SCHEMA.words(SCORING_IS_OUTSIDE["votes"]),
        "scoring by votes",
        SCHEMA.words(parties("sealed", metered=False)[0][1]),
    ):
        assert part in words
    assert "highest alerts" in words
    # Neither totals nor what they are made of.
    for column in ("GreenVotes", "OrderingVotes", "BeneficiaryVotes", "votes for an anomaly"):
        assert column not in words


def test_nothing_of_a_payment_without_an_alert_is_on_the_page(document, tables, tmp_path, pv4fad):
    """Not even if its score is the highest: its score, level and reasons could change at will."""
    made, quiet = predictions(tables.test.transactions), pl.col("Alert") == 0
    spoiled = made.with_columns(
        Score=pl.when(quiet).then(0.987654).otherwise("Score"),
        Level=pl.when(quiet).then(3).otherwise("Level"),
        Reasons=pl.when(quiet).then(pl.lit("not an alert")).otherwise("Reasons"),
    )
    pages = []
    for name, table in (("made", made), ("spoiled", spoiled)):
        run, file = write_run(tmp_path / name, document, table), tmp_path / f"{name}.html"
        assert pv4fad("report", run, "--out", file)[0] == 0
        pages.append(file.read_text())
    assert pages[0] == pages[1]
    words = Seen(pages[0]).words
    for message, alert in made.select("MessageId", "Alert").iter_rows():
        assert alert or message not in words


def test_every_bank_shows_what_it_has_spent(seen, document):
    for bank in document.parameters.banks:
        assert f"Entries of {bank}" in seen.words
        assert f"{bank}1322^-122^-10" in seen.words  # spent 1 of 3, 2 left; δ and its limit
    # ε, H, ε if no other bank is honest, Δ.
    assert seen.words.count("122.282distributed") == len(document.parameters.banks)


def test_hostile_text_is_shown_as_text(seen):
    assert HOSTILE in seen.words
    assert LONG in seen.words
    assert "<b>x</b> < 3" in seen.words
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
    shown = re.search(r"The (\d+) highest alerts(.*?)public:", seen.words, re.DOTALL)
    alerts = whole.predictions.filter(pl.col("Alert") == 1)
    highest = alerts.sort("Score", descending=True, maintain_order=True).head(20)
    number, shown = shown.groups()
    assert int(number) == highest.height
    for message in highest["MessageId"]:
        assert message in shown
    assert "the bank's record" in shown
    assert "level" in shown
    # What banks know, and who is behind an account, is nobody's business here.
    for column in ("OrderingAccount", "BeneficiaryAccount", "OrderingName"):
        for value in highest[column].cast(pl.String).drop_nulls():
            assert value not in shown


def test_what_is_unusual_is_rare_on_either_end_and_the_rarest_comes_first():
    values = np.zeros((1000, 4), np.float32)
    values[:, 0] = np.arange(1000)
    values[7, 1] = 5  # the only one
    values[:15, 2] = -1
    features = FeatureTable(("rank", "only", "low", "same"), values)
    assert unusual(SCHEMA, features, np.array([7, 500, 999])) == [
        "only 5 (0.1 %); rank 7 (0.8 %); low -1 (1.5 %)",
        "",
        "rank 999 (0.1 %)",
    ]


def test_every_kind_of_message_says_what_its_receiver_learns():
    assert set(LEARNS) == kinds_in_code()


def test_a_query_shows_a_bank_a_round_and_with_votes_the_number_of_layers(whole):
    votes = replace(whole, document=finished_document(model="paper", scoring="votes"))
    a_round, layers = "that a round of questions takes place", "the padded number of layers"
    for content, told, untold in ((whole, a_round, layers), (votes, layers, a_round)):
        words = Seen(page(content)).words
        assert told in words
        assert untold not in words


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
    assert "the data is not named: give DIR after RUN" in text
    seen = Seen(file.read_text())
    assert figures(seen) == {"training", "training-bytes"}
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
    assert figures(Seen(file.read_text())) == {"training", "training-bytes"}


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


def test_scores_of_somebody_else_still_make_a_report(document, tables, data, tmp_path, pv4fad):
    made = predictions(tables.test.transactions).select("MessageId", "Score")
    run = write_run(tmp_path / "run", document, made)
    file = tmp_path / "report.html"
    code, text, _ = pv4fad("report", run, data, "--out", file)
    assert code == 0
    assert "The highest alerts: the predictions have no column Alert" in text
    assert figures(Seen(file.read_text())) == {"precision-recall", "training", "training-bytes"}


def test_a_scoring_without_an_alert_says_so(document, tables, tmp_path, pv4fad):
    made = predictions(tables.test.transactions).with_columns(Alert=0, Level=0)
    run = write_run(tmp_path / "run", document, made)
    file = tmp_path / "report.html"
    assert pv4fad("report", run, "--out", file)[0] == 0
    words = Seen(file.read_text()).words
    assert "No payment became an alert." in words
    assert made["MessageId"][0] not in words


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

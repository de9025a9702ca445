"""The study, on small data; that its runs in the clear are what private runs arrive at."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pv4fad import Detector, simulate
from pv4fad.cli.main import app
from pv4fad.errors import DataError
from pv4fad.evaluation.measures import average_precision
from pv4fad.evidence.classes import ORDINARY
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad_bench import utility
from pv4fad_bench.clear_run import ABSENT, ClearRun, Release
from pv4fad_bench.prepared import Setting, prepare, prepared, read
from pv4fad_bench.utility import (
    Measured,
    Row,
    StudyDocument,
    StudyFile,
    evidence_rows,
    interval_over_seeds,
    measure,
    study_seed,
)

SETTING, SEED = Setting(3000, Difficulty.CHALLENGE), 8
NO_NOISE = Release("none", 13)


def many_anomalies(*arguments):
    """A small data set in which there is something to find."""
    return generate_tables(
        Settings(3000, 3, Difficulty.CHALLENGE, 8, anomaly_rate=0.05, accounts=1500)
    )


@pytest.fixture(scope="module")
def data():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pv4fad_bench.prepared.generate_tables", many_anomalies)
        return prepare(SETTING, SEED, lambda _: None)


@pytest.fixture(scope="module")
def run(data):
    return ClearRun(data, SEED)


def test_scores_in_the_clear_are_those_of_a_private_run(run):
    tables = many_anomalies()
    with simulate(tables.accounts) as federation:
        detector = Detector(epsilon="none", seed=SEED, alert_share=0.05)
        private = detector.fit(tables.train.transactions, federation).predict(
            tables.test.transactions
        )
    found = run.decide(run.model(run.kinds, NO_NOISE), run.new_kinds, 0.05)
    assert np.allclose(private["Score"].to_numpy(), found.score, rtol=1e-6)
    assert np.array_equal(private["Level"].to_numpy(), found.level)


def test_these_scores_depend_on_what_the_banks_know(run):
    """Otherwise the test above would compare nothing that came from a bank."""
    model = run.model(run.kinds, NO_NOISE)
    found = run.decide(model, run.new_kinds, 0.05)
    nobody = run.decide(model, np.full_like(run.new_kinds, ORDINARY), 0.05)
    assert found.n_bank_alerts > nobody.n_bank_alerts == 0
    assert np.abs(found.score - nobody.score).max() > 0.1


def test_evidence_finds_more_than_the_payment_network_alone(run, data):
    row = Row("evidence", NO_NOISE)
    found = measure(run, data, row, np.random.default_rng(1))
    assert found.average_precision > average_precision(data.labels, run.alone)
    assert found.not_ordinary == (run.new_kinds != ORDINARY).sum() >= max(found.known) > 0


def test_controls_are_what_they_are_called(run):
    rng = np.random.default_rng(1)
    rows = {row.control: row for row in evidence_rows()}
    shuffled, new = rows["shuffled"].kinds(run, rng)
    assert np.array_equal(np.sort(shuffled), np.sort(run.kinds))
    assert not np.array_equal(shuffled, run.kinds)
    assert np.array_equal(new, run.new_kinds)
    assert (rows["pure noise"].kinds(run, rng)[0] == ORDINARY).all()
    assert all((one == ABSENT).all() for one in rows["no bank"].kinds(run, rng))


def test_every_draw_of_noise_is_another_one(run):
    models = [run.model(run.kinds, Release(parse_epsilon("1"), 13)) for _ in range(2)]
    assert not np.array_equal(models[0].share, models[1].share)


def test_what_is_prepared_is_kept_and_not_made_again(data, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "pv4fad_bench.prepared.prepare", lambda *arguments: calls.append(arguments) or data
    )
    for _ in range(2):
        found = prepared(SETTING, SEED, tmp_path, lambda _: None)
        assert np.array_equal(found.alone, data.alone)
    assert len(calls) == 1
    (path,) = tmp_path.iterdir()
    again = read(path)
    assert again.paper.keys() == data.paper.keys()
    assert np.array_equal(again.new_key_of, data.new_key_of)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="remove it"):
        read(path)


def test_a_finished_seed_is_kept_and_a_file_of_another_study_refused(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    rows = {name: Measured(0.5, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)) for name in ("alone", "joined")}
    StudyFile(path, 1000).add(Difficulty.HARD, 11, rows)
    again = StudyFile(path, 1000)
    assert again.finished(Difficulty.HARD) == {11: rows}
    assert again.finished(Difficulty.CHALLENGE) == {}
    with pytest.raises(DataError, match=r"another setting \(transactions\)"):
        StudyFile(path, 2000)
    monkeypatch.setattr(utility, "RECIPE", utility.RECIPE + 1)
    with pytest.raises(DataError, match=r"another setting \(recipe\)"):
        StudyFile(path, 1000)


def _damaged(spoil):
    measured = {"average_precision": 0.5, "precision": [0.1] * 3, "recall": [0.2] * 3}
    hard = {seed: {"alone": dict(measured), "joined": dict(measured)} for seed in ("11", "12")}
    spoil(hard)
    document = StudyDocument.empty(1000).model_dump(mode="json")
    return json.dumps(document | {"results": {"hard": hard}})


DAMAGE = {
    "a list": "[]",
    "no text": "\0",
    "deeply nested": "[" * 100_000,
    "of before recipes had versions": _damaged(lambda hard: None).replace('"recipe"', '"mark"'),
    "a seed that is no number": _damaged(lambda hard: hard.update(x=hard.pop("11"))),
    "no rows": _damaged(lambda hard: hard.update({"11": {}})),
    "other rows for one seed": _damaged(lambda hard: hard["11"].update(more=hard["11"]["alone"])),
    "without the bound": _damaged(lambda hard: [rows.pop("joined") for rows in hard.values()]),
    "text for a number": _damaged(lambda hard: hard["11"]["alone"].update(average_precision="x")),
    "no number": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=float("nan"))),
    "null": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=None)),
    "above 1": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=1.5)),
    "a budget too few": _damaged(lambda hard: hard["11"]["alone"].update(precision=[0.1])),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_holds_no_study_is_refused_and_stays(damage, tmp_path):
    path = tmp_path / "study.json"
    path.write_text(DAMAGE[damage])
    with pytest.raises(DataError, match=f"{path}: is damaged, or holds no study"):
        StudyFile(path, 1000)
    assert path.read_text() == DAMAGE[damage]


def test_the_damage_is_what_is_wrong_with_those_files(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(_damaged(lambda hard: None))
    assert list(StudyFile(path, 1000).finished(Difficulty.HARD)) == [11, 12]


def test_a_test_period_without_anomalies_is_named_before_the_work():
    told = []
    with pytest.raises(DataError, match="hard, seed 11: none of the 2,6"):
        study_seed(Setting(20_000, Difficulty.HARD), 11, None, told.append)
    assert told == ["data"]


def test_the_command_prints_what_is_in_its_file(tmp_path):
    path = tmp_path / "study.json"
    for seed, shift in ((11, 0.0), (12, 0.02)):
        file = StudyFile(path, 1000)
        for number, difficulty in enumerate(Difficulty):
            values = {"alone": 0.4, "joined": 0.6, "evidence, ε = 1": 0.55 + number / 100}
            rows = {
                name: Measured(value + shift, (0.1,) * 3, (0.2,) * 3)
                for name, value in values.items()
            }
            file.add(difficulty, seed, rows)
    arguments = ["bench", "utility", "--seeds", "2", "--transactions", "1000", "--json", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "| evidence, ε = 1 | 0.560 (0.433 to 0.687) | +0.150 (+0.150 to +0.150) |" in (
        result.output
    )
    assert "| 0.80 |" in result.output  # hard closes four fifths of the gap


def test_the_interval_over_seeds_is_that_of_student():
    """Known answer: for 1, 2, 3, 4 it is 2.5 ± 3.182446·1.290994/2 (tables of t, 3 degrees)."""
    interval = interval_over_seeds([1, 2, 3, 4])
    assert interval.value == 2.5
    assert interval.high == pytest.approx(2.5 + 3.182446 * 1.2909944 / 2, abs=1e-6)
    assert interval.low == pytest.approx(2.5 - 3.182446 * 1.2909944 / 2, abs=1e-6)


def test_one_seed_has_no_interval():
    interval = interval_over_seeds([0.4])
    assert (interval.value, interval.low, interval.high) == (0.4, None, None)

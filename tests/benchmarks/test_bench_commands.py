"""The benchmarks run, check their results, and report everything they promise."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.errors import ParameterError
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.he.ring import DISTANCE_RING, TAG_RING, Ring, match_ring
from pv4fad_bench.batches import DecisionBatch
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.paper_workload import PaperWorkload
from pv4fad_bench.workload import Workload

ONE_BLOCK = ["--pns-accounts", "3000", "--bank-accounts", "2500"]
N_CLASSES = 3


def run(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_match_checks_every_bin_and_reports_every_figure(tmp_path):
    file = tmp_path / "match.json"
    result = run("match", *ONE_BLOCK, "--workers", "2", "--json", str(file))
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert report["checks"] == {
        "u − s equals the plain join in all 4096 bins": True,
        "E_j[s] decrypts to s": True,
    }
    assert set(report["phases"]) == {
        "place accounts, make keys",
        "encrypt powers",
        "messages and stores",
        "hash bank accounts",
        "polynomials",
        "encrypt digits, bits",
        "distances",
        "encrypt planes",
        "indicators",
        "open",
    }
    assert all(phase["cpu_s"] > 0 for phase in report["phases"].values())
    assert report["wall_s"] == pytest.approx(sum(p["wall_s"] for p in report["phases"].values()))
    assert set(report["peak_bytes"]) == {"parties", "worker 1", "worker 2"}
    figures = report["figures"]
    assert figures["log2_false_match"] < -20
    assert figures["log2_distance"] < -30
    assert figures["overhead_ratio"] == pytest.approx(report["wall_s"] / figures["floor_s"])
    counts = {(one["job"], one["name"]): one["count"] for one in report["operations"]}
    rings = {"encrypt powers": TAG_RING, "encrypt digits, bits": DISTANCE_RING}
    rings["encrypt planes"] = match_ring(65537)
    sent = sum(
        counts[job, "encrypt"] * Ring.of(ring).ciphertext_bytes(ring.n_data_primes)
        for job, ring in rings.items()
    )
    assert sent < figures["upload_bytes"] < sent + 2000
    assert counts["open", "decrypt"] == 4 + N_CLASSES
    assert counts["indicators", "sanitise"] == N_CLASSES
    total = sum(one["total_s"] for one in report["operations"])
    assert figures["floor_s"] == pytest.approx(total / 2)
    assert figures["overhead_ratio"] > 1
    for figure in ("overhead ratio", "log2 false match", "peak memory of worker 2", "checked"):
        assert figure in result.output


SMALL_FOREST = ["--trees", "3", "--groups-per-tree", "4", "--workers", "0"]
DEFAULT = ["--workers", "0"]
DECISIONS = ["--model", "paper", "--scoring", "decisions", *SMALL_FOREST]
VOTES = ["--model", "paper", "--scoring", "votes", *SMALL_FOREST]


@pytest.mark.parametrize(
    ("model", "compared", "phases"),
    [
        (DEFAULT, ["54 counts", "54 opened counts"], ["noisy-counts"]),
        (VOTES, ["12 counts", "24 labels"], ["compare", "labels"]),
    ],
    ids=["default", "sealed"],
)
def test_train_equals_the_trusted_third_party(model, compared, phases):
    result = run("train", *ONE_BLOCK, *model)
    assert result.exit_code == 0, result.output
    for claim in compared:
        assert f"all {claim} equal those of a trusted third party: checked" in result.output
    for phase in ("propose", "match", "count", "masked-products", *phases):
        assert phase in result.output


def test_a_wrong_result_is_reported_and_fails(monkeypatch):
    right = Workload.atoms.func

    def another_atom_for_one_account(self):
        atoms = right(self)
        atoms[0] = 1 - atoms[0]
        return atoms

    monkeypatch.setattr(Workload, "atoms", property(another_atom_for_one_account))
    result = run("match", *ONE_BLOCK, "--workers", "0")
    assert result.exit_code == 1
    assert "u − s equals the plain join in all 4096 bins: WRONG" in result.output
    assert "E_j[s] decrypts to s: checked" in result.output


@pytest.mark.parametrize("option", ["--pns-accounts", "--bank-accounts", "--trees"])
def test_sizes_below_one_are_refused(option):
    assert run("match", option, "0").exit_code == 2


SOME_PAYMENTS = ["--transactions", "4000", "--per-account", "3"]
EQUAL = "equal those of a trusted third party"


@pytest.mark.parametrize(
    ("model", "n_layers", "compared"),
    [(DEFAULT, 3, "decisions"), (DECISIONS, 1, "decisions"), (VOTES, 3, "vote totals")],
    ids=["default", "paper, decisions", "paper, votes"],
)
def test_score_checks_every_answer_and_counts_every_operation(tmp_path, model, n_layers, compared):
    file = tmp_path / "score.json"
    result = run("score", *ONE_BLOCK, *model, *SOME_PAYMENTS, "--json", str(file))
    assert result.exit_code == 0, result.output
    assert f"all 4,000 {compared} {EQUAL}: checked" in result.output
    report = json.loads(file.read_text())
    assert all(report["checks"].values())
    counts: Counter[str] = Counter()
    for one in report["operations"]:
        counts[one["name"]] += one["count"]
    n_blocks = 1
    assert report["figures"]["layers"] == n_layers
    if compared == "decisions":
        assert counts["sanitise"] == counts["decrypt"] == n_layers * n_blocks
        queries = next(one for one in report["traffic"] if one["kind"] == "score-query")
        assert queries["n_messages"] == n_layers
    else:
        n_leaves, n_groups, n_once = 24, 12, 1
        assert counts["sanitise"] == counts["decrypt"] == 2 * n_layers * n_blocks + n_once
        assert counts["encrypt"] == n_leaves
        assert counts["prepare slots"] == n_layers * n_blocks * n_groups
    figures = report["figures"]
    assert figures["overhead_ratio"] == pytest.approx(report["wall_s"] / figures["floor_s"])
    assert figures["training_s_off_the_clock"] > 0
    assert "propose" not in report["phases"]


@pytest.mark.parametrize("per_account", [1, 15])
@pytest.mark.parametrize(
    "workload", [EvidenceWorkload(1000, 800), PaperWorkload(1000, 800, scoring="decisions")]
)
def test_the_number_of_rounds_does_not_depend_on_the_number_of_payments(workload, per_account):
    batch = workload.batch(1000 * per_account, per_account)
    assert isinstance(batch, DecisionBatch)
    assert len(batch.kinds) == workload.n_layers(per_account) <= 3


def test_a_batch_of_decisions_has_payments_of_every_kind():
    """Those that depend on no bank, and for each kind alerts and others, absent accounts too."""
    batch = EvidenceWorkload(1000, 800).batch(3000, 3)
    for number in range(len(batch.kinds)):
        alerts = batch.truth[batch.alerts_if[:, number]]
        assert 0 < alerts.sum() < len(alerts)
    nothing = ~batch.alerts_if.any(axis=1)
    assert nothing.any()
    assert not batch.truth[nothing].any()
    assert set(batch.atom_of) == {-1, 0, 1, 2}


class Answers:
    """A federation that answers from the clear, wrongly where `flip` says so."""

    def __init__(self, batch, flip=()):
        self.number = {key: number for number, key in enumerate(batch.keys)}
        self.batch, self.flip, self.asked = batch, flip, []

    def ask(self, _, questions, __):
        (one,), number = questions.sets, len(self.asked)
        self.asked.append([self.number[key] for key in questions.keys])
        bits = trusted_bits(self.batch.atom_of[self.asked[-1]], one.atoms, absent=one.absent)
        bits[: number in self.flip] ^= 1
        return bits


def test_whose_kind_is_known_is_not_asked_about_again():
    batch = EvidenceWorkload(300, 200).batch(900, 3)
    answers = Answers(batch)
    batch.score(answers, "run")
    assert all(batch.checks().values())
    for number, (asked, later) in enumerate(itertools.pairwise(answers.asked)):
        one = batch.kinds[number]
        inside = trusted_bits(batch.atom_of[asked], one.atoms, absent=one.absent) == 1
        assert inside.any()
        assert not set(np.array(asked)[inside]) & set(later)


@pytest.mark.parametrize("round_", [0, 1, 2])
def test_a_wrong_bit_is_noticed_in_every_round(round_):
    batch = EvidenceWorkload(300, 200).batch(900, 3)
    batch.score(Answers(batch, flip=[round_]), "run")
    assert not all(holds for claim, holds in batch.checks().items() if "bits" in claim)


@pytest.mark.parametrize(
    ("model", "compared"), [(DEFAULT, "decisions"), (VOTES, "vote totals")], ids=["bits", "votes"]
)
def test_a_wrong_answer_is_reported_and_fails(model, compared, monkeypatch):
    kind = EvidenceWorkload if compared == "decisions" else PaperWorkload
    right = kind.batch

    def another_truth(self, n, per_account):
        batch = right(self, n, per_account)
        batch.truth[0] = 1 - batch.truth[0]
        return batch

    monkeypatch.setattr(kind, "batch", another_truth)
    result = run("score", *ONE_BLOCK, *model, *SOME_PAYMENTS)
    assert result.exit_code == 1
    assert f"{compared} {EQUAL}: WRONG" in result.output


def test_more_payments_than_accounts_can_have_are_refused():
    result = run("score", *ONE_BLOCK, "--transactions", "9001", "--per-account", "3")
    assert isinstance(result.exception, ParameterError)
    assert "9001 transactions over 3000 accounts are more than 3" in str(result.exception)


@pytest.mark.parametrize("command", ["train", "score"])
def test_only_the_papers_model_has_votes(command):
    result = run(command, "--scoring", "votes")
    assert result.exit_code == 2
    assert "--model paper" in result.output

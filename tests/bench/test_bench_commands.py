"""The benchmarks run, check their results, and report everything they promise."""

import json

import pytest
from typer.testing import CliRunner

from pv4fad.bench.workload import Workload
from pv4fad.cli.main import app
from pv4fad.errors import ParameterError
from pv4fad.he.ring import Ring, match_ring

ONE_BLOCK = ["--pns-accounts", "3000", "--bank-accounts", "2500"]
N_ATOMS, N_PLANES = 11, 52


def run(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_match_checks_every_bin_and_reports_every_figure(tmp_path):
    file = tmp_path / "match.json"
    result = run("match", *ONE_BLOCK, "--workers", "2", "--json", str(file))
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert report["checks"] == {
        "u − s equals the plain join in all 16384 bins": True,
        "E_j[s] decrypts to s": True,
    }
    assert set(report["phases"]) == {
        "place accounts, make keys",
        "encrypt planes",
        "messages and stores",
        "hash bank accounts",
        "layers of one block",
        "blind and sanitise",
        "open shares",
    }
    assert all(phase["cpu_s"] > 0 for phase in report["phases"].values())
    assert report["wall_s"] == pytest.approx(sum(p["wall_s"] for p in report["phases"].values()))
    assert set(report["peak_bytes"]) == {"parties", "worker 1", "worker 2"}
    figures = report["figures"]
    assert figures["log2_false_match"] < -20
    assert figures["log2_distance"] < -30
    assert figures["overhead_ratio"] == pytest.approx(report["wall_s"] / figures["floor_s"])
    planes = N_PLANES * Ring.of(match_ring(65537)).ciphertext_bytes(6)
    assert planes < figures["upload_bytes"] < planes + 1000
    counts = {one["name"]: one["count"] for one in report["operations"]}
    assert counts["encrypt a plane"] == N_PLANES
    assert counts["decrypt"] == counts["sanitise"] == N_ATOMS
    total = sum(one["count"] * one["unit_s"] for one in report["operations"])
    assert figures["floor_s"] == pytest.approx(total / 2)
    for figure in ("overhead ratio", "log2 false match", "peak memory of worker 2", "checked"):
        assert figure in result.output


def test_train_equals_the_trusted_third_party():
    result = run("train", *ONE_BLOCK, "--trees", "3", "--groups-per-tree", "4", "--workers", "0")
    assert result.exit_code == 0, result.output
    for claim in ("all 12 counts equal", "all 24 labels equal"):
        assert f"{claim} those of a trusted third party: checked" in result.output
    for phase in ("propose", "match", "count", "compare", "labels", "masked-products"):
        assert phase in result.output


def test_a_wrong_result_is_reported_and_fails(monkeypatch):
    right = Workload.atoms.func

    def another_atom_for_one_account(self):
        atoms = right(self)
        atoms[0] = 1 - atoms[0]
        return atoms

    monkeypatch.setattr(Workload, "atoms", property(another_atom_for_one_account))
    result = run("match", *ONE_BLOCK, "--atoms", "2", "--workers", "0")
    assert result.exit_code == 1
    assert "u − s equals the plain join in all 16384 bins: WRONG" in result.output
    assert "E_j[s] decrypts to s: checked" in result.output


@pytest.mark.parametrize("option", ["--pns-accounts", "--atoms", "--trees"])
def test_sizes_below_one_are_refused(option):
    assert run("match", option, "0").exit_code == 2


SMALL_FOREST = ["--trees", "3", "--groups-per-tree", "4", "--workers", "0"]
SOME_PAYMENTS = ["--transactions", "4000", "--per-account", "3"]


@pytest.mark.parametrize(
    ("mode", "ciphertexts_per_layer", "n_once"), [("sealed", 2, 2), ("released", 1, 0)]
)
def test_score_checks_every_vote_and_counts_every_operation(
    tmp_path, mode, ciphertexts_per_layer, n_once
):
    file = tmp_path / "score.json"
    result = run(
        "score", *ONE_BLOCK, *SMALL_FOREST, *SOME_PAYMENTS, "--mode", mode, "--json", str(file)
    )
    assert result.exit_code == 0, result.output
    assert "all 4,000 vote totals equal those of a trusted third party: checked" in result.output
    report = json.loads(file.read_text())
    n_layers, n_blocks = 3, 2
    counts = {one["name"]: one["count"] for one in report["operations"]}
    n_queries = n_layers * n_blocks * ciphertexts_per_layer
    assert counts["sanitise"] == counts["decrypt"] == n_queries + n_once
    if mode == "sealed":
        n_leaves, n_groups = 24, 12
        assert counts["encrypt a label share"] == n_leaves
        assert counts["encode, transform the mask of a group"] == n_layers * n_blocks * n_groups
    figures = report["figures"]
    assert figures["overhead_ratio"] == pytest.approx(report["wall_s"] / figures["floor_s"])
    assert figures["training_s_off_the_clock"] > 0
    assert "propose" not in report["phases"]


def test_a_wrong_vote_is_reported_and_fails(monkeypatch):
    right = Workload.votes
    monkeypatch.setattr(Workload, "votes", lambda self, data: right(self, data) ^ 1)
    result = run("score", *ONE_BLOCK, *SMALL_FOREST, *SOME_PAYMENTS, "--mode", "released")
    assert result.exit_code == 1
    assert "vote totals equal those of a trusted third party: WRONG" in result.output


def test_a_micro_batch_sends_as_much_for_one_payment_as_for_one_of_every_account(tmp_path):
    file = tmp_path / "online.json"
    result = run("online", "--accounts", "1000", *SMALL_FOREST, "--json", str(file))
    assert result.exit_code == 0, result.output
    batches = json.loads(file.read_text())["figures"]["micro_batches"]
    single, full = batches
    assert (single["transactions"], full["transactions"]) == (1, 1000)
    assert single["n_bytes"] == full["n_bytes"] > 0
    assert result.output.count("checked") == len(batches)


def test_more_payments_than_accounts_can_have_are_refused():
    result = run("score", *ONE_BLOCK, "--transactions", "9001", "--per-account", "3")
    assert isinstance(result.exception, ParameterError)
    assert "9001 transactions over 3000 accounts are more than 3" in str(result.exception)


@pytest.mark.parametrize("accounts", ["", "a", "0", "1000,"])
def test_accounts_of_micro_batches_are_checked(accounts):
    result = run("online", "--accounts", accounts)
    assert result.exit_code == 2
    assert "--accounts" in result.output

"""Hub, payment network and banks in separate processes, as on separate machines."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
from tests.kit.deployed import PATIENCE_S, Deployment, left_behind, processes_of
from tests.kit.waiting import comes_true

from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.party_folder import KEY_FILE
from pv4fad.detection import fitting
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
BANKS = ["bank01", "bank02", "bank03"]
ROUNDS = fitting.ROUNDS


@pytest.fixture(autouse=True)
def local_models_as_in_the_processes(monkeypatch):
    """Verification here fits the local model again: with all rounds, as the parties do."""
    monkeypatch.setattr(fitting, "ROUNDS", ROUNDS)


def test_killed_or_stopped_bank_network_and_hub_change_nothing(tmp_path):
    """A bank and the payment network are killed in the middle of training, then the hub.  In the
    middle of scoring all of them are stopped, then the hub and a bank killed at once.  Nobody tells
    anybody to go on."""
    deployment = Deployment(tmp_path, BANKS[:2])
    try:
        deployment.start()
        deployment.wait_for(AGGREGATOR, "is ready")
        training = deployment.begin("start", "train")
        deployment.wait_for_job(1)
        for victim, n_bytes in (("bank01", 4e6), (PAYMENT_NETWORK, 2e6), (AGGREGATOR, 4e6)):
            before = received(deployment, "bank02")
            deployment.go_on(
                "bank02",
                lambda: received(deployment, "bank02") > before + n_bytes,  # noqa: B023
                f"{victim} was killed",
            )
            deployment.kill(victim)
            deployment.start(victim)
        deployment.release("bank02")
        output, _ = training.communicate(timeout=PATIENCE_S)
        assert training.returncode == 0, output + deployment.logs()
        trained = deployment.status()
        assert trained.state == "finished"
        assert trained.parties["bank01"].failures or trained.parties["bank01"].restarts
        assert trained.sessions >= 3

        scoring = deployment.begin("start", "score")
        deployment.wait_for_job(2)
        deployment.go_on("bank02", lambda: received(deployment, "bank02") > 1e6, "all were stopped")
        for name in ("bank01", PAYMENT_NETWORK, AGGREGATOR):
            deployment.stop(name)
            assert deployment.status().state == "running"
            deployment.start(name)
        deployment.go_on("bank02", lambda: received(deployment, "bank02") > 4e6, "two were killed")
        deployment.kill(AGGREGATOR)
        deployment.kill("bank02")
        deployment.start(AGGREGATOR, "bank02")
        output, _ = scoring.communicate(timeout=PATIENCE_S)
        assert scoring.returncode == 0, output + deployment.logs()
        assert deployment.status().state == "finished"
    finally:
        deployment.close()
    result = deployment.verified()
    assert result.all_equal
    assert {found.what for found in result.exact} >= {"counts", "bits", "alerts", "scores"}
    output = deployment.log(PAYMENT_NETWORK).read_text()
    assert re.search(
        r"[1-9]\d* alerts, [1-9]\d* of them made or raised by the\s+answer\s+of\s+a\s+bank", output
    )
    for bank in BANKS[:2]:
        assert len(deployment.ledger(bank).expenses) == 1
    assert not left_behind(tmp_path)


@pytest.mark.slow
def test_over_flower_all_parties_are_reached_and_no_process_is_left(tmp_path):
    deployment = Deployment(tmp_path, BANKS[:1], "flower")
    try:
        deployment.start(AGGREGATOR)
        deployment.wait_for(AGGREGATOR, "is ready")
        deployment.start(PAYMENT_NETWORK, "bank01")
        status = deployment.federation("start", "check")
        assert len(processes_of(tmp_path)) > 6  # or the last line would show nothing
    finally:
        deployment.close()
    assert status.state == "finished"
    assert not left_behind(tmp_path)


@pytest.mark.slow
def test_over_flower_a_killed_bank_and_a_killed_hub_change_nothing(tmp_path):
    """A bank is killed in the middle of match, the hub in the middle of scoring."""
    deployment = Deployment(tmp_path, BANKS, "flower")
    try:
        deployment.start(AGGREGATOR)
        deployment.wait_for(AGGREGATOR, "is ready")
        deployment.start(PAYMENT_NETWORK, *BANKS)
        training = deployment.begin("start", "train")
        deployment.wait_until(lambda: received(deployment, "bank01") > 4e6, "a table on its way")
        deployment.kill("bank01")
        deployment.start("bank01")
        output, _ = training.communicate(timeout=PATIENCE_S)
        assert training.returncode == 0, output + deployment.logs()
        trained = deployment.status()
        assert trained.parties["bank01"].failures or trained.parties["bank01"].restarts
        assert trained.sessions > 1

        scoring = deployment.begin("start", "score")
        deployment.wait_until(
            lambda: deployment.status().number == 2 and received(deployment, "bank02") > 1e6,
            "a delta on its way",
        )
        deployment.kill(AGGREGATOR)
        output, _ = scoring.communicate(timeout=PATIENCE_S)
        assert "the relay stopped responding" in output
        deployment.start(AGGREGATOR)
        deployment.wait_until(
            lambda: deployment.log(AGGREGATOR).read_text().count("is ready") == 2, "the hub"
        )
        assert deployment.federation("resume").state == "finished"
    finally:
        deployment.close()
    result = deployment.verified()
    assert result.all_equal
    assert {found.what for found in result.exact} >= {"counts", "bits", "alerts", "scores"}
    output = deployment.log(PAYMENT_NETWORK).read_text()
    assert re.search(
        r"[1-9]\d* alerts, [1-9]\d* of them made or raised by the\s+answer\s+of\s+a\s+bank", output
    )
    for bank in BANKS:
        assert len(deployment.ledger(bank).expenses) == 1
    assert comes_true(lambda: not left_behind(tmp_path))


@pytest.mark.slow
def test_over_flower_unknown_keys_and_wrong_certificates_are_refused_in_clear_words(tmp_path):
    deployment = Deployment(tmp_path, BANKS[:2], "flower")
    other = Deployment(tmp_path / "other", BANKS[:1])
    (tmp_path / "bank01" / KEY_FILE).unlink()
    new_certificate(tmp_path / "bank01" / KEY_FILE)
    shutil.copy(other.root / AGGREGATOR / "card.json", tmp_path / "bank02/cards/aggregator.json")
    try:
        deployment.start(AGGREGATOR)
        deployment.wait_for(AGGREGATOR, "is ready")
        deployment.start("bank01", "bank02")
        deployment.wait_for("bank01", "the SuperLink does not know the key of this node")
        deployment.wait_for("bank02", "does not have the certificate on the aggregator's card")
    finally:
        deployment.close()
    assert not left_behind(tmp_path)


def received(deployment: Deployment, name: str) -> int:
    """How many bytes are on their way to a party, or have arrived."""
    path = deployment.root / AGGREGATOR / "status.json"
    return deployment.status().parties[name].bytes_to if path.exists() else 0

"""`pv4fad.connect`: a Python process leads a deployed federation, to the same results."""

from __future__ import annotations

import signal
import subprocess
import sys

import polars as pl
import pytest

import pv4fad
import tests.kit.claims as world
from pv4fad.deployment.hub.carrier import HubCarrier
from pv4fad.detection import fitting
from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.store.key_sources import read_key_file
from tests.kit.deployed_claims import make_folders, running
from tests.kit.waiting import comes_true

ROUNDS = fitting.ROUNDS
SETTINGS = {"epsilon": "none", "alert_share": 0.05, "seed": 5}
PROGRAM = """
import sys, polars as pl, pv4fad
root, job = sys.argv[1:]
with pv4fad.connect(f"{root}/insurer", key_file=f"{root}/insurer.key") as federation:
    print("connected", flush=True)
    detector = pv4fad.Detector(epsilon="none", alert_share=0.05, seed=5)
    detector.fit(pl.read_csv(f"{root}/claims.csv", try_parse_dates=True), federation)
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The hospitals and the hub; the folder of all."""
    root = tmp_path_factory.mktemp("deployed")
    folders = make_folders(root, limit="none")
    with running(folders, read_key_file(root / "insurer.key")):
        yield root, folders


def connected(root):
    return pv4fad.connect(root / "insurer", key_file=root / "insurer.key")


@pytest.fixture(scope="module")
def expected():
    """What a simulated federation finds, with all rounds of the local model, as processes have."""
    with (
        pytest.MonkeyPatch.context() as patch,
        pv4fad.simulate(world.hospital_records(), world.claims_schema(), limit="none") as one,
    ):
        patch.setattr(fitting, "ROUNDS", ROUNDS)
        detector = pv4fad.Detector(**SETTINGS).fit(world.claims(), one)
        return detector.predict(world.new_claims())


@pytest.fixture(scope="module")
def trained_by_two_processes(deployed):
    """The first one was killed in the middle of the training; what the second one has."""
    root, folders = deployed
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, root, "train"], stdout=subprocess.PIPE, text=True
    )
    carrier, aggregator = HubCarrier(), folders[AGGREGATOR]

    def is_under_way() -> bool:
        assert process.poll() is None
        status = carrier.status(aggregator)
        return status is not None and status.parties["north"].bytes_to > 5e6

    with process:
        try:
            assert comes_true(is_under_way, 300)
        finally:
            process.send_signal(signal.SIGKILL)
    with connected(root) as federation:
        federation.resume()
        detector = pv4fad.load(federation, rows=world.claims())
        predictions = detector.predict(world.new_claims())
        again = detector.predict(world.new_claims())
        asked = detector.last_scoring_
    return predictions, again, asked


def test_predictions_are_those_of_a_simulated_federation(trained_by_two_processes, expected):
    predictions, *_ = trained_by_two_processes
    assert predictions.equals(expected)
    assert predictions["Alert"].sum() > 0


def test_what_is_known_is_not_asked_again(trained_by_two_processes):
    predictions, again, asked = trained_by_two_processes
    assert again.equals(predictions)
    assert asked.learned.records_asked == 0


def test_a_later_process_goes_on_with_the_latest_training(deployed, trained_by_two_processes):
    root, _ = deployed
    with connected(root) as federation:
        assert federation.holders == ("north", "south")
        assert repr(federation) == "Federation(holders=['north', 'south'], schema='claims')"
        detector = pv4fad.load(federation, rows=world.claims())
        federation.refresh()
        found = detector.detect(world.new_claims())
        # Nothing is kept for a file of another kind, and limits are the holders' own.
        with pytest.raises(ParameterError, match="there is nothing to save"):
            detector.save(root / "saved")
        with pytest.raises(ParameterError, match="only that party can set it"):
            federation.set_limit("north", 1)
        with pytest.raises(StoreError, match="only the holder itself knows"):
            _ = federation.ledgers["north"].left
        assert federation.ledgers["north"].spent == "none"
        assert len(federation.ledgers["north"].expenses) == 1
        with pytest.raises(StoreError, match="no job was interrupted"):
            federation.abandon()
    alerts = trained_by_two_processes[0].filter(pl.col("Alert") == 1)
    assert set(found["ClaimId"]) == set(alerts["ClaimId"])
    assert not (root / "saved").exists()
    with pytest.raises(StoreError, match="the federation is closed"):
        detector.detect(world.new_claims())


def test_a_job_that_somebody_else_starts_has_nothing_to_train_on(deployed):
    root, folders = deployed
    carrier = HubCarrier()
    with connected(root):
        number = carrier.start_job(folders[AGGREGATOR], "train")
        assert comes_true(lambda: carrier.status(folders[AGGREGATOR]).state != "running")
        status = carrier.status(folders[AGGREGATOR])
    assert (status.number, status.state) == (number, "failed")
    assert "payment-network: cannot continue (StoreError)" in status.error


def test_a_limit_of_a_holder_is_named_and_the_training_can_be_given_up(tmp_path):
    folders = make_folders(tmp_path, limit="1")
    with running(folders, read_key_file(tmp_path / "insurer.key")), connected(tmp_path) as one:
        with pytest.raises(StoreError, match="there is no model yet"):
            pv4fad.load(one)
        with pytest.raises(BudgetError, match=r"(north|south): cannot continue \(BudgetError\)"):
            pv4fad.Detector(epsilon=2).fit(world.claims(), one)
        with pytest.raises(StoreError, match=r"federation\.resume\(\), or give it up"):
            pv4fad.Detector(epsilon=1).fit(world.claims(), one)
        one.abandon()
        with pytest.raises(ParameterError, match="ε '-1'"):
            pv4fad.Detector(epsilon=-1).fit(world.claims(), one)


def test_only_a_lead_with_a_hub_connects(deployed, tmp_path):
    root, _ = deployed
    with pytest.raises(ParameterError, match="is the folder of north: the lead connects"):
        pv4fad.connect(root / "north")
    away = make_folders(tmp_path, limit="1")[PAYMENT_NETWORK].path
    key = tmp_path / "insurer.key"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pv4fad.api.deployed._CONNECTS_WITHIN_S", 1.0)
        with pytest.raises(StoreError, match="is not connected: the hub does not run"):
            pv4fad.connect(away, key_file=key)
    settings = away / "party.toml"
    settings.write_text(settings.read_text().replace('carrier = "hub"', 'carrier = "flower"'))
    with pytest.raises(ParameterError, match="over Flower, jobs are started at the aggregator"):
        pv4fad.connect(away, key_file=key)

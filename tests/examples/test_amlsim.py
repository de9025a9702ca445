"""AMLSim's accounts and transactions: the adapter, and a private run on its tables."""

from __future__ import annotations

import importlib.util
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.kit.notebook import has_output, run_notebook

import pv4fad
from pv4fad.verify.predictions import ScoredData
from pv4fad.verify.training import compare

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "amlsim"
NOTEBOOK = EXAMPLE / "amlsim.ipynb"
DATA = ROOT.parent / "shared" / "data" / "amlsim_20k_cycle200"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")

spec = importlib.util.spec_from_file_location("amlsim_adapter", EXAMPLE / "adapter.py")
adapter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(adapter)

N_ACCOUNTS, N_ROWS = 120, 1_500


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Every sixth account is in a cycle, and at its step pays the next such account."""
    rng = np.random.default_rng(3)
    number = np.arange(N_ACCOUNTS)
    fraud = number % 6 == 0
    step = np.where(fraud & (number % 18 != 0), rng.integers(10, 150, N_ACCOUNTS), -1)
    accounts = pl.DataFrame(
        {
            "nodeid": number,
            "isFraud": fraud.astype(int),
            "init_balance": rng.uniform(100, 600, N_ACCOUNTS).round(2),
            "fraudStep": step,
        }
    )
    cycle = number[step >= 0]
    transactions = pl.DataFrame(
        {
            "sourceNodeId": [*rng.integers(N_ACCOUNTS, size=N_ROWS), *cycle],
            "targetNodeId": [*rng.integers(N_ACCOUNTS, size=N_ROWS), *((cycle + 6) % N_ACCOUNTS)],
            "value": rng.uniform(100, 600, N_ROWS + len(cycle)).round(2),
            "time": [*rng.integers(1, 150, N_ROWS), *step[step >= 0]],
        }
    ).sort("time")
    folder = tmp_path_factory.mktemp("amlsim")
    accounts.write_csv(folder / "nodes.csv")
    transactions.write_csv(folder / "transactions.csv")
    return folder


@pytest.fixture(scope="module")
def written(source):
    target = source / "written"
    adapter.write(source, target)
    return target


def read(folder, split):
    rows = pl.read_parquet(folder / split / "lead" / "rows.parquet")
    files = sorted((folder / split).glob("*/records.parquet"))
    return rows, {file.parent.name: pl.read_parquet(file) for file in files}


def test_every_transaction_of_a_period_is_a_row_at_the_banks_of_its_accounts(source, written):
    _, transactions = adapter.read_amlsim(source)
    for split, first, last in (("train", 50, 99), ("test", 100, 149)):
        rows, records = read(written, split)
        theirs = transactions.filter(pl.col("time").is_between(first, last))
        assert rows["Sender"].to_list() == theirs["sourceNodeId"].to_list()
        assert rows["Amount"].to_list() == theirs["value"].to_list()
        days = (rows["Time"] - date(2026, 1, 1)).dt.total_days()
        assert days.to_list() == theirs["time"].to_list()
        assert rows["PaymentId"].is_unique().all()
        bank = {account: name for name, table in records.items() for account in table["Account"]}
        assert sorted(bank) == list(range(N_ACCOUNTS))
        for side in ("Sender", "Receiver"):
            assert [bank[account] for account in rows[side]] == rows[f"{side}Bank"].to_list()


def test_a_payment_is_laundering_between_accounts_of_cycles_at_the_senders_step(source, written):
    accounts, transactions = adapter.read_amlsim(source)
    fraud = set(accounts.filter(isFraud=1)["nodeid"])
    step = dict(accounts.select("nodeid", "fraudStep").iter_rows())
    expected = [
        int({sender, receiver} <= fraud and step[sender] == time)
        for sender, receiver, _, time in transactions.iter_rows()
        if time >= 50
    ]
    labels = [
        label for split in ("train", "test") for label in read(written, split)[0]["Laundering"]
    ]
    assert labels == expected
    assert sum(labels) > 5


def test_banks_know_only_what_happened_before_the_period_begins(source, written):
    accounts, _ = adapter.read_amlsim(source)
    steps = dict(accounts.select("nodeid", "fraudStep").iter_rows())
    for split, begin in (("train", 50), ("test", 100)):
        rows, records = read(written, split)
        known = pl.concat(records.values()).drop_nulls("Reported")
        assert set(known["Account"]) == {one for one, step in steps.items() if 0 <= step < begin}
        assert known["Reported"].max() < rows["Time"].min()
        assert set(known.columns) == {"Account", "Balance", "Reported"}


def equals_a_plain_join(written, alert_share):
    """Train without noise, let records change, score: every count, bit, alert and score."""
    train, old = read(written, "train")
    test, present = read(written, "test")
    new = test.drop("Laundering")
    with pv4fad.simulate(old, schema=written / "schema.toml") as federation:
        for name, table in old.items():
            reported = table["Reported"].is_not_null()
            large = ~reported & (table["Balance"] >= 450)
            classes = np.where(reported, "reported", np.where(large, "large", "ordinary"))
            assert federation.records[name]["Class"].cast(pl.String).to_list() == classes.tolist()
        detector = pv4fad.Detector(epsilon="none", alert_share=alert_share, seed=2)
        detector.fit(train, federation)
        before = dict(federation.records)
        federation.refresh(present)
        predictions = detector.predict(new)
        found = compare(
            detector.run_.parameters,
            bytes.fromhex(detector.run_.structure_commitment),
            federation.read_rows(train, labels_required=True),
            before,
            federation.stores,
            scored=ScoredData(
                federation.read_rows(new, labels_required=False),
                federation.records,
                predictions,
                detector.last_scoring_,
            ),
        )
    assert found.all_equal, (found.exact, found.noisy)
    assert {"counts", "bits", "alerts"} <= {one.what for one in found.exact if one.total}
    assert detector.last_scoring_.accounts_known > 0


def test_a_private_run_equals_a_plain_join(written):
    equals_a_plain_join(written, 0.05)


@pytest.mark.slow
@needs_data
def test_a_private_run_on_the_public_sample_equals_a_plain_join(tmp_path):
    adapter.write(DATA, tmp_path / "amlsim")
    equals_a_plain_join(tmp_path / "amlsim", 0.03)


def test_the_notebook_is_kept_without_output():
    assert not has_output(NOTEBOOK)


@pytest.mark.slow
@needs_data
def test_the_notebook_runs():
    names = run_notebook(NOTEBOOK)
    assert names["predictions"].height == names["new"].height == 29_943
    # The amounts of laundering give it away, whatever the banks say.
    assert names["recall"]("LocalScore") > 0.9
    assert names["recall"]("Score") > 0.8

"""AMLSim's accounts and transactions: the adapter, and a private run on its tables."""

from __future__ import annotations

import importlib.util
import json
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.kit.notebook import has_output, run_notebook

from pv4fad.schema import read_schema
from pv4fad.tables.reading import read_records

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


def test_classes_are_reported_then_large_then_ordinary(written):
    _, records = read(written, "test")
    schema = read_schema(written / "schema.toml")
    for name, table in records.items():
        reported = table["Reported"].is_not_null()
        large = ~reported & (table["Balance"] >= 450)
        classes = np.where(reported, "reported", np.where(large, "large", "ordinary"))
        found = read_records(schema, table, holder=name).frame
        assert dict(found.select("Id", pl.col("Class").cast(pl.String)).iter_rows()) == dict(
            zip(table["Account"].cast(pl.String), classes.tolist(), strict=True)
        )


def equals_the_trusted_third_party(data, command_line, alert_share):
    """The commands of the page, without noise: every count, bit, alert and score."""
    run, made = data.with_name("run"), data.with_name("predictions.csv")
    key = ("--key-file", data.with_name("key"))
    said = ""
    for arguments in (
        ("train", data, "--out", run, "--epsilon", "none", "--alert-share", alert_share,
         "--seed", 2, *key),
        ("refresh", run, data, *key),
        ("score", run, data, "--out", made, *key),
    ):  # fmt: skip
        code, out, err = command_line(*arguments)
        assert code == 0, err
        said += out
    assert "payment network" in said
    code, out, _ = command_line("verify", run, data, "--predictions", made, *key, "--json")
    result = json.loads(out)
    assert (code, result["all_equal"]) == (0, True), result
    compared = {one["what"]: one["total"] for one in (*result["exact"], *result["noisy"])}
    rows, _ = read(data, "test")
    assert min(compared["counts"], compared["bits"]) > 0
    assert compared["alerts"] == rows.height


def test_a_run_of_the_command_line_equals_the_trusted_third_party(written, command_line):
    equals_the_trusted_third_party(written, command_line, 0.05)


@pytest.mark.slow
@needs_data
def test_a_run_on_the_public_sample_equals_the_trusted_third_party(tmp_path, command_line):
    adapter.write(DATA, tmp_path / "amlsim")
    equals_the_trusted_third_party(tmp_path / "amlsim", command_line, 0.03)


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

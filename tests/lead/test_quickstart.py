"""The quick start does what it says, as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from pv4fad.errors import DataError
from pv4fad.payments.schema import TRANSACTION_SCHEMA
from pv4fad.protocol.roles import PAYMENT_NETWORK

PAGE = Path(__file__).parents[2] / "docs" / "use" / "quickstart.md"


@pytest.fixture(scope="module")
def after():
    """What the names in the examples mean after they have been run."""
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102
    return names


def test_every_transaction_has_a_score_and_only_alerts_have_reasons(after):
    table, learned = after["found"].table, after["found"].record.learned
    assert table["MessageId"].to_list() == after["tables"].test.transactions["MessageId"].to_list()
    assert table["Score"].is_between(0, 1).all()
    assert table["Alert"].is_in([0, 1]).all()
    others = table.filter(pl.col("Alert") == 0)
    assert others["Score"].to_list() == others["LocalScore"].to_list()
    assert others["Reasons"].is_null().all()
    assert (learned.payments, learned.alerts) == (table.height, table.height - others.height)
    assert after["found"].record.accounts_known == learned.accounts_asked


def test_columns_are_those_that_the_page_explains(after):
    rows = re.findall(r"^\| (`\w+`.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert after["found"].table.columns == re.findall(r"`(\w+)`", " ".join(rows))


def test_no_store_holds_a_vote(after):
    names = {name for store in after["model"].stores.values() for name in store.keys("")}
    assert any("KnownBits" in name for name in names) == (after["found"].record.accounts_known > 0)
    assert not [name for name in names if "vote" in name.lower()]


def test_own_files_are_loaded(after, tmp_path):
    tables = after["tables"]
    dates = {"datetime_format": "%Y-%m-%d %H:%M:%S", "date_format": "%y%m%d"}
    tables.train.transactions.write_csv(tmp_path / "known.csv", **dates)
    tables.test.transactions.drop("Label").write_csv(tmp_path / "new.csv", **dates)
    for bank, accounts in tables.accounts.items():
        (tmp_path / bank).mkdir()
        accounts.write_csv(tmp_path / bank / "accounts.csv")
    known, new, banks = after["load"](tmp_path)
    assert known.schema == TRANSACTION_SCHEMA
    assert "Label" not in new.columns
    assert list(banks) == ["bank01", "bank02", "bank03"]
    assert all(frame.equals(after["records"][bank]) for bank, frame in banks.items())


def test_every_party_has_a_store_and_epsilon_is_spent(after):
    model = after["model"]
    assert set(model.stores) == {PAYMENT_NETWORK, "aggregator", "bank01", "bank02", "bank03"}
    assert model.parameters.epsilon == "1"
    assert model.stores["bank02"].keys("permanent/ledger/")


def test_refresh_needs_the_records_of_all_banks(after):
    records = dict(after["records"])
    del records["bank02"]
    with pytest.raises(DataError, match="give the records of bank01, bank02, bank03"):
        after["model"].refresh(records)

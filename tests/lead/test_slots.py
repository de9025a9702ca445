"""Private slots: each bank says for itself what they mean, and the model asks all of them alike."""

import polars as pl
import pytest
from tests.kit.small_federation import write_two_banks

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import schema_with_slots
from pv4fad.lead.bank_files import SLOTS_FILE, bank_records, load_bank, load_split
from pv4fad.payments.challenge import BANK_FILE, write_table


@pytest.fixture
def data(tmp_path, tables):
    """Bank 1 fines its accounts, bank 2 knows when they were opened; `risk` means either."""
    train = write_two_banks(tmp_path / "data", tables)
    own = {
        "bank01": (
            pl.Series("Fines", range(10_000)),
            'column = "Fines"\noperator = ">="\nvalue = 40',
        ),
        "bank02": (
            pl.Series("Opened", ["2021-12-30", "2019-05-01"] * 5000),
            'column = "Opened"\noperator = ">"\nvalue = "2021-01-01"',
        ),
    }
    for bank, (column, predicate) in own.items():
        path = train / bank / BANK_FILE
        accounts = pl.read_csv(path, infer_schema=False)
        write_table(path, accounts.with_columns(column.head(accounts.height)))
        (train / bank / SLOTS_FILE).write_text(f"[slots.risk]\n{predicate}\n")
    return tmp_path / "data"


def test_a_slot_is_applied_where_the_file_is_read_and_the_column_stays_there(data):
    schema = schema_with_slots(["risk"])
    accounts = load_split(data / "scenario01" / "train").accounts
    first, second = accounts["bank01"].frame, accounts["bank02"].frame
    assert {"Fines", "Opened"}.isdisjoint([*first.columns, *second.columns])
    no, yes = schema.atom_set("risk", ["no"])[0], schema.atom_set("risk", ["yes"])[0]
    expected = [no] * 40 + [yes] * (first.height - 40)
    assert bank_records(first, schema).atoms[:, 1].tolist() == expected
    assert bank_records(second, schema).atoms[:3, 1].tolist() == [yes, no, yes]


def test_a_bank_without_a_meaning_for_a_slot_says_so(data):
    path = data / "scenario01" / "train" / "bank01" / BANK_FILE
    path.with_name(SLOTS_FILE).unlink()
    with pytest.raises(ParameterError, match="define"):
        bank_records(load_bank(path), schema_with_slots(["risk"]))


def test_a_run_that_asks_about_a_slot_equals_the_trusted_third_party(data, tmp_path, pv4fad):
    run = tmp_path / "run"
    arguments = ("--epsilon", "none", "--model", "paper", "--scoring", "votes")
    slots = ("--slot", "risk", "--trees", 4, "--height", 1, "--workers", 0)
    code, _, err = pv4fad("train", data, "--out", run, *arguments, *slots)
    assert code == 0, err
    code, out, err = pv4fad("verify", run, data)
    assert code == 0, err
    assert "100 %" in out

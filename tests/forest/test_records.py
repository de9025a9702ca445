"""A bank gives each record one atom per family, and private slots mean what the bank says."""

from __future__ import annotations

import json
from datetime import date, datetime

import polars as pl
import pytest

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.atoms import AtomFamily, AtomSchema, schema_with_slots
from pv4fad.forest.records import SlotPredicate, load_slots, record_atoms

FLAGS_AND_RISK = schema_with_slots(["risk"])
ACCOUNTS = pl.DataFrame(
    {
        "Account": ["A", "B", "C", "D"],
        "Flags": pl.Series(["00", "11", "03", "00"], dtype=pl.Enum(AtomSchema().families[0].atoms)),
        "FineAmount": [0.0, 1000.0, None, float("nan")],
        "Opened": [date(2015, 1, 1), date(2022, 1, 3), None, date(2021, 12, 31)],
        "LastSeen": [datetime(2022, 1, 1, 12), None, None, datetime(2021, 1, 1)],
        "Branch": pl.Series(["X", "Y", None, "X"], dtype=pl.Categorical),
        "Dormant": [True, False, None, True],
        "Cases": [3, 0, 1, 2],
    }
)


def yes(column, operator, value, accounts=ACCOUNTS):
    predicate = SlotPredicate(column=column, operator=operator, value=value)
    atoms = record_atoms(FLAGS_AND_RISK, accounts, {"risk": predicate})
    return (atoms[:, 1] == FLAGS_AND_RISK.atom_set("risk", ["yes"])[0]).tolist()


def test_each_record_has_one_atom_of_each_family():
    predicate = SlotPredicate(column="Cases", operator=">", value=1)
    atoms = record_atoms(FLAGS_AND_RISK, ACCOUNTS, {"risk": predicate})
    assert atoms.tolist() == [[0, 12], [10, 11], [2, 11], [0, 12]]


def test_without_slots_only_the_flag_counts():
    assert record_atoms(AtomSchema(), ACCOUNTS, {}).tolist() == [[0], [10], [2], [0]]
    text = ACCOUNTS.with_columns(pl.col("Flags").cast(pl.String))
    assert record_atoms(AtomSchema(), text, {}).tolist() == [[0], [10], [2], [0]]
    assert record_atoms(AtomSchema(), ACCOUNTS[:0], {}).shape == (0, 1)


@pytest.mark.parametrize(
    ("column", "operator", "value", "expected"),
    [
        ("FineAmount", ">=", 1000, [0, 1, 0, 0]),  # a missing number satisfies nothing
        ("FineAmount", "!=", 0, [0, 1, 0, 0]),
        ("FineAmount", "<", 1.5, [1, 0, 0, 0]),
        ("Cases", "<=", 1.5, [0, 1, 1, 0]),
        ("Cases", "==", 2, [0, 0, 0, 1]),
        ("Opened", ">", date(2021, 12, 31), [0, 1, 0, 0]),
        ("Opened", ">=", "2021-12-31", [0, 1, 0, 1]),
        ("LastSeen", ">", "2022-01-01T11:00:00", [1, 0, 0, 0]),
        ("Branch", "==", "X", [1, 0, 0, 1]),
        ("Branch", "!=", "X", [0, 1, 0, 0]),
        ("Dormant", "==", True, [1, 0, 0, 1]),
        ("Flags", "!=", "00", [0, 1, 1, 0]),
    ],
)
def test_a_slot_compares_a_column_with_a_constant(column, operator, value, expected):
    assert yes(column, operator, value) == [bool(one) for one in expected]


def test_two_banks_give_the_same_slot_different_meanings(tmp_path):
    fines, age = tmp_path / "bank1.toml", tmp_path / "bank2.json"
    fines.write_text('[slots.risk]\ncolumn = "FineAmount"\noperator = ">="\nvalue = 1000\n')
    age.write_text(
        json.dumps(
            {"slots": {"risk": {"column": "Opened", "operator": ">=", "value": "2021-07-05"}}}
        )
    )
    first = record_atoms(FLAGS_AND_RISK, ACCOUNTS, load_slots(fines))
    second = record_atoms(FLAGS_AND_RISK, ACCOUNTS, load_slots(age))
    assert first[:, 1].tolist() == [11, 12, 11, 11]
    assert second[:, 1].tolist() == [11, 12, 11, 12]


def test_dates_of_toml_are_understood(tmp_path):
    path = tmp_path / "bank.toml"
    path.write_text('[slots.risk]\ncolumn = "Opened"\noperator = "<"\nvalue = 2016-01-01\n')
    assert record_atoms(FLAGS_AND_RISK, ACCOUNTS, load_slots(path))[:, 1].tolist() == [
        12,
        11,
        11,
        11,
    ]


@pytest.mark.parametrize(
    ("column", "operator", "value", "message"),
    [
        ("Fines", ">", 1, "no column 'Fines'; it has Account"),
        ("FineAmount", ">", "1000", "FineAmount.*type str"),
        ("FineAmount", "==", True, "type bool"),
        ("Branch", "<", "X", "Branch.* by <"),
        ("Branch", "==", 3, "type int"),
        ("Dormant", "<", True, "by <"),
        ("Opened", "<", 2021, "type int"),
        ("Opened", "<", "last year", "is not a date"),
        ("Opened", "<", "2021-01-01T00:00:00+01:00", "time zone"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(column, operator, value, message):
    with pytest.raises(ParameterError, match=f"slot 'risk'.*{message}"):
        yes(column, operator, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[slots.risk\n", "bank.toml"),
        ("[slot.risk]\ncolumn='A'", r"expected a table \[slots.NAME\]"),
        ("slots = 3", "expected a table"),
        ("[slots]\nrisk = 3", "expected a table"),
        ("[slots.risk]\ncolumn='A'\noperator='~'\nvalue=1", "slot 'risk': operator"),
        ("[slots.risk]\ncolumn='A'\noperator='<'", "slot 'risk': value"),
        ("[slots.risk]\ncolumn='A'\noperator='<'\nvalue=1\nunit='x'", "slot 'risk': unit"),
    ],
)
def test_a_damaged_slot_file_is_refused_with_its_name(tmp_path, text, message):
    path = tmp_path / "bank.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        load_slots(path)


def test_an_undefined_slot_and_an_unknown_flag_are_refused():
    with pytest.raises(ParameterError, match=r"define \[slots.risk\]"):
        record_atoms(FLAGS_AND_RISK, ACCOUNTS, {})
    with pytest.raises(DataError, match="row 2: flag '02'"):
        record_atoms(AtomSchema(), pl.DataFrame({"Flags": ["00", "02"]}), {})
    with pytest.raises(DataError, match="row 1: flag None"):
        record_atoms(AtomSchema(), pl.DataFrame({"Flags": [None, "00"]}), {})
    with pytest.raises(DataError, match="no column 'Flags'"):
        record_atoms(AtomSchema(), pl.DataFrame({"A": ["00"]}), {})
    with pytest.raises(ParameterError, match="neither the flags nor a private slot"):
        record_atoms(AtomSchema((AtomFamily("size", ("small", "large")),)), ACCOUNTS, {})


def test_atoms_are_numbered_through_all_families():
    assert FLAGS_AND_RISK.n_atoms == 13
    assert FLAGS_AND_RISK.offsets == (0, 11, 13)
    assert FLAGS_AND_RISK.family_of == (0,) * 11 + (1,) * 2
    assert FLAGS_AND_RISK.atom_set("flags", ["03", "00", "03"]) == (0, 2)
    assert FLAGS_AND_RISK.atom_set("risk", ["present"]) == (11, 12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FLAGS_AND_RISK.atom_set("fraud", ["00"]), "no atom family 'fraud'; known: flags"),
        (lambda: FLAGS_AND_RISK.atom_set("flags", ["02"]), "has no atom '02'; known: 00, 01"),
        (lambda: schema_with_slots(["risk", "risk"]), "different names"),
        (lambda: schema_with_slots(["flags"]), "different names"),
        (lambda: AtomFamily("x", ("a", "a")), "all different"),
        (lambda: AtomFamily("x", ()), "needs atoms"),
        (lambda: AtomFamily("", ("a",)), "needs a name"),
        (lambda: AtomSchema(()), "all with different names"),
    ],
)
def test_impossible_schemas_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()

"""Who stands on each side of rows, and who deals with whom for the first time."""

from datetime import datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.payments.schema import SCHEMA
from pv4fad.schema import schema_of
from pv4fad.tables.sides import Sides

# Holders that come from the first or last row of an event, as those of payments.

# (UETR, minute, sender, receiver): few values each, so that payments have many legs and ties.
Leg = tuple[str, int, str, str]
BANKS = st.sampled_from("ABCDE")
LEGS = st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 4), BANKS, BANKS), min_size=1)


def _table(legs: list[Leg], ids: list[int] | None = None) -> pl.DataFrame:
    start = datetime(2022, 1, 5)
    return pl.DataFrame(
        {
            "MessageId": [f"TR{i:08d}" for i in ids or range(len(legs))],
            "Timestamp": [start + timedelta(minutes=minute) for _, minute, _, _ in legs],
            "UETR": [uetr for uetr, _, _, _ in legs],
            "Sender": [sender for _, _, sender, _ in legs],
            "Receiver": [receiver for _, _, _, receiver in legs],
            "OrderingAccount": [f"{uetr}1" for uetr, *_ in legs],
            "BeneficiaryAccount": [f"{uetr}2" for uetr, *_ in legs],
        },
        schema_overrides={"Sender": pl.Categorical, "Receiver": pl.Categorical},
    )


def _banks(table: pl.DataFrame) -> list[tuple[str, str]]:
    ordering, beneficiary = Sides(SCHEMA, table).side_keys()
    return list(zip(ordering["Holder"], beneficiary["Holder"], strict=True))


@given(st.data(), LEGS)
def test_routing_equals_a_loop_over_the_legs_of_the_payment(
    data: st.DataObject, legs: list[Leg]
) -> None:
    table = _table(legs, data.draw(st.permutations(range(len(legs)))))
    rows = table.rows(named=True)
    expected = []
    for row in rows:
        payment = [leg for leg in rows if leg["UETR"] == row["UETR"]]
        payment.sort(key=lambda leg: (leg["Timestamp"], leg["MessageId"]))
        expected.append((payment[0]["Sender"], payment[-1]["Receiver"]))
    assert _banks(table) == expected


@given(LEGS)
def test_legs_of_other_payments_never_change_the_routing(legs: list[Leg]) -> None:
    mine = [leg for leg in legs if leg[0] == "u"]
    others = [leg for leg in legs if leg[0] != "u"]
    if mine:
        assert _banks(_table(mine + others))[: len(mine)] == _banks(_table(mine))


@given(st.data(), LEGS)
def test_routing_does_not_depend_on_the_order_of_the_rows(
    data: st.DataObject, legs: list[Leg]
) -> None:
    order = data.draw(st.permutations(range(len(legs))))
    table = _table(legs)
    for shuffled, keys in zip(
        Sides(SCHEMA, table[order]).side_keys(), Sides(SCHEMA, table).side_keys(), strict=True
    ):
        assert shuffled.equals(keys[order])


def test_a_payment_under_way_is_routed_by_the_legs_that_are_known() -> None:
    legs = [("u", 60, "B", "C"), ("u", 0, "A", "B"), ("v", 30, "X", "Y"), ("u", 120, "C", "D")]
    assert _banks(_table(legs[1:2])) == [("A", "B")]
    assert _banks(_table(legs[:3])) == [("A", "C"), ("A", "C"), ("X", "Y")]
    assert _banks(_table(legs)) == [("A", "D"), ("A", "D"), ("X", "Y"), ("A", "D")]


def test_the_ids_of_a_side_are_those_of_its_column() -> None:
    table = _table([("u", 0, "A", "B"), ("v", 1, "A", "C")])
    for keys, name in zip(
        Sides(SCHEMA, table).side_keys(), ("Ordering", "Beneficiary"), strict=True
    ):
        assert keys.schema == {"Holder": pl.String, "Id": pl.String}
        assert keys["Id"].to_list() == table[f"{name}Account"].to_list()


# Holders that each row names, or none does.


def test_a_holder_is_what_the_row_says_and_without_a_column_unknown() -> None:
    sides = {"patient": {"id": "Patient", "holder": "Hospital"}, "doctor": {"id": "Doctor"}}
    schema = schema_of(
        {
            "name": "claims",
            "rows": {"id": "Claim", "time": "Submitted"},
            "sides": sides,
            "record": {"classes": ["ordinary", "watch"]},
        }
    )
    rows = pl.DataFrame({"Patient": [1, 2], "Doctor": ["x", "y"], "Hospital": ["north", None]})
    patient, doctor = Sides(schema, rows).side_keys()
    assert patient.rows() == [("north", "1"), (None, "2")]
    assert doctor.rows() == [(None, "x"), (None, "y")]


# First dealings.

ROW = st.tuples(st.sampled_from("AB"), st.sampled_from("CD"), st.integers(0, 4), st.integers(0, 5))
Row = tuple[str, str, int, int]


def found(rows: list[Row]) -> list[bool]:
    columns = ["OrderingAccount", "BeneficiaryAccount", "UETR", "Timestamp"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return Sides(SCHEMA, table).first_dealings().tolist()


def begin(row: Row, rows: list[Row]) -> int:
    return min(one[3] for one in rows if one[:3] == row[:3])


@given(st.lists(ROW, min_size=1, max_size=12))
def test_first_is_an_event_that_none_of_its_accounts_precedes(rows: list[Row]) -> None:
    expected = [
        not any(one[:2] == row[:2] and one[3] < begin(row, rows) for one in rows) for row in rows
    ]
    assert found(rows) == expected


@given(st.lists(ROW, min_size=1, max_size=12), ROW)
def test_what_comes_at_the_same_time_or_later_changes_nothing(
    rows: list[Row], further: Row
) -> None:
    more = found([*rows, further])
    for row, before, after in zip(rows, found(rows), more, strict=False):
        if further[3] >= begin(row, rows):
            assert before == after

"""Claims about routing."""

from datetime import datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.payments.routing import BENEFICIARY_BANK, ORDERING_BANK, route

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
        },
        schema_overrides={"Sender": pl.Categorical, "Receiver": pl.Categorical},
    )


def _banks(table: pl.DataFrame) -> list[tuple[str, str]]:
    return route(table).select(ORDERING_BANK, BENEFICIARY_BANK).rows()


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
    shuffled = table[order]
    assert route(shuffled).equals(route(table)[order])


def test_a_payment_under_way_is_routed_by_the_legs_that_are_known() -> None:
    legs = [("u", 60, "B", "C"), ("u", 0, "A", "B"), ("v", 30, "X", "Y"), ("u", 120, "C", "D")]
    assert _banks(_table(legs[1:2])) == [("A", "B")]
    assert _banks(_table(legs[:3])) == [("A", "C"), ("A", "C"), ("X", "Y")]
    assert _banks(_table(legs)) == [("A", "D"), ("A", "D"), ("X", "Y"), ("A", "D")]


def test_routing_adds_two_columns_and_keeps_the_rest() -> None:
    table = _table([("u", 0, "A", "B")]).with_columns(other=pl.lit(1))
    routed = route(table)
    assert routed.drop(ORDERING_BANK, BENEFICIARY_BANK).equals(table)
    assert routed.schema[ORDERING_BANK] == routed.schema[BENEFICIARY_BANK] == pl.Categorical

"""Graph features equal a definition by loops over strictly earlier payments."""

import datetime as dt
from math import log1p

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.payments.features import compute_features
from pv4fad.payments.features.graph import GRAPH_MEANINGS
from pv4fad.payments.schema import TRANSACTION_SCHEMA

START = dt.datetime(2022, 1, 5, 8, 0)
DAY, WEEK = dt.timedelta(days=1), dt.timedelta(days=7)
# Ties, windows that end exactly on a payment, and gaps of more than a week.
_MOMENTS = [dt.timedelta(hours=h) for h in (0, 1, 24, 25, 48, 168, 169, 192, 400)]

# Few accounts, on both sides: pairs repeat, are reciprocated, and an account may pay itself.
_row = st.fixed_dictionaries(
    {
        "Timestamp": st.sampled_from([START + moment for moment in _MOMENTS]),
        "UETR": st.sampled_from([f"u{n}" for n in range(9)]),
        "OrderingAccount": st.sampled_from(["A", "B", "C", "D"]),
        "BeneficiaryAccount": st.sampled_from(["A", "B", "C", "E"]),
        "SettlementAmount": st.sampled_from([0.0, 0.01, 17.0, 1234.56, 9e12]),
    }
)
_rows = st.lists(_row, min_size=1, max_size=14)


def frame(rows: list[dict[str, object]], first_id: int = 0) -> pl.DataFrame:
    filled = [
        {
            "MessageId": f"TR{number:08d}",
            "Sender": "BANKFRPP",
            "Receiver": "BANKDEFF",
            "SettlementDate": row["Timestamp"].date(),
            "InstructedAmount": 1.0,
            **row,
        }
        for number, row in enumerate(rows, first_id)
    ]
    return pl.DataFrame(filled, schema=TRANSACTION_SCHEMA)


def graph_values(rows: pl.DataFrame, history: pl.DataFrame | None = None) -> np.ndarray:
    table = compute_features(rows, history)
    return table.values[:, [table.names.index(name) for name in GRAPH_MEANINGS]]


@settings(max_examples=150, deadline=None)
@given(_rows)
def test_features_equal_a_definition_by_loops(rows):
    expected = [[_expected(row, rows)[name] for name in GRAPH_MEANINGS] for row in rows]
    np.testing.assert_allclose(graph_values(frame(rows)), expected, rtol=1e-6)


def _expected(row: dict, rows: list[dict]) -> dict[str, float]:
    def began(one: dict) -> dt.datetime:
        return min(other["Timestamp"] for other in rows if other["UETR"] == one["UETR"])

    now, payer, payee = began(row), row["OrderingAccount"], row["BeneficiaryAccount"]
    first_legs = {}  # of legs at the same time that with the smallest id
    for one in rows:
        if one["Timestamp"] == began(one):
            first_legs.setdefault(one["UETR"], one)
    past = [one for one in first_legs.values() if one["Timestamp"] < now]

    def between(source: str | None, target: str | None, window: dt.timedelta | None = None):
        return [
            one
            for one in past
            if source in (None, one["OrderingAccount"])
            and target in (None, one["BeneficiaryAccount"])
            and (window is None or one["Timestamp"] >= now - window)
        ]

    def payees(account: str, window: dt.timedelta | None = None) -> set[str]:
        return {one["BeneficiaryAccount"] for one in between(account, None, window)}

    def payers(account: str, window: dt.timedelta | None = None) -> set[str]:
        return {one["OrderingAccount"] for one in between(None, account, window)}

    def amount(payments: list[dict]) -> float:
        return log1p(sum(min(one["SettlementAmount"], 1e11) for one in payments))

    def recency(payments: list[dict]) -> float:
        if not payments:
            return 0.0
        last = max(one["Timestamp"] for one in payments)
        return 1 / (1 + (now - last) / dt.timedelta(hours=1))

    return {
        "ordering_received": len(between(None, payer)),
        "beneficiary_sent": len(between(payee, None)),
        "ordering_payees": len(payees(payer)),
        "ordering_payers": len(payers(payer)),
        "beneficiary_payees": len(payees(payee)),
        "beneficiary_payers": len(payers(payee)),
        "ordering_sent_1d": len(between(payer, None, DAY)),
        "ordering_sent_7d": len(between(payer, None, WEEK)),
        "ordering_payees_1d": len(payees(payer, DAY)),
        "ordering_payees_7d": len(payees(payer, WEEK)),
        "beneficiary_received_1d": len(between(None, payee, DAY)),
        "beneficiary_received_7d": len(between(None, payee, WEEK)),
        "beneficiary_payers_1d": len(payers(payee, DAY)),
        "beneficiary_payers_7d": len(payers(payee, WEEK)),
        "ordering_sent_amount": amount(between(payer, None)),
        "ordering_received_amount": amount(between(None, payer)),
        "beneficiary_sent_amount": amount(between(payee, None)),
        "beneficiary_received_amount": amount(between(None, payee)),
        "ordering_sent_amount_1d": amount(between(payer, None, DAY)),
        "ordering_received_amount_1d": amount(between(None, payer, DAY)),
        "beneficiary_received_amount_1d": amount(between(None, payee, DAY)),
        "pair_recency": recency(between(payer, payee)),
        "ordering_sent_recency": recency(between(payer, None)),
        "ordering_received_recency": recency(between(None, payer)),
        "beneficiary_received_recency": recency(between(None, payee)),
        "reverse_pair_seen": len(between(payee, payer)),
        "cycles_closed": len(payees(payee) & payers(payer)),
    }


@settings(max_examples=60, deadline=None)
@given(_rows, _rows)
def test_rows_that_are_not_earlier_change_nothing(rows, added):
    first = min(row["Timestamp"] for row in added)
    unaffected = [n for n, row in enumerate(rows) if row["Timestamp"] <= first]
    together = graph_values(frame(rows + added))[: len(rows)]
    np.testing.assert_array_equal(together[unaffected], graph_values(frame(rows))[unaffected])


@settings(max_examples=40, deadline=None)
@given(_rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    np.testing.assert_array_equal(
        graph_values(frame(rows)[order]), graph_values(frame(rows))[order]
    )


@settings(max_examples=40, deadline=None)
@given(_rows, _rows)
def test_features_with_history_are_those_of_one_computation(earlier, rows):
    together = graph_values(frame(earlier + rows))[len(earlier) :]
    np.testing.assert_array_equal(graph_values(frame(rows, len(earlier)), frame(earlier)), together)


def _payment(hours: float, source: str, target: str, uetr: str | None = None) -> dict:
    moment = START + dt.timedelta(hours=hours)
    name = uetr or f"{source}{target}{hours}"
    amount = 10.0
    return {
        "Timestamp": moment, "UETR": name, "OrderingAccount": source,
        "BeneficiaryAccount": target, "SettlementAmount": amount,
    }  # fmt: skip


def named(rows: list[dict], name: str) -> list[float]:
    return graph_values(frame(rows))[:, list(GRAPH_MEANINGS).index(name)].tolist()


def test_later_legs_see_what_the_first_leg_saw():
    legs = [_payment(hours, "A", "B", "one payment") for hours in (5, 6, 7)]
    values = graph_values(frame([_payment(1, "A", "B"), *legs, _payment(5.5, "A", "B")]))
    np.testing.assert_array_equal(values[2:4], values[[1, 1]])
    assert named([*legs, _payment(8, "A", "B")], "ordering_sent_1d") == [0, 0, 0, 1]


def test_a_payment_exactly_one_window_ago_is_within_it():
    rows = [_payment(0, "A", "B"), _payment(24, "A", "C"), _payment(24.02, "A", "D")]
    assert named(rows, "ordering_sent_1d") == [0, 1, 1]
    assert named(rows, "ordering_payees_1d") == [0, 1, 1]


@pytest.mark.parametrize("n_neighbours", [64, 65])
def test_cycles_through_two_hubs_are_not_searched(n_neighbours):
    between = [f"X{n}" for n in range(n_neighbours)]
    rows = [_payment(0, "B", x) for x in between] + [_payment(1, x, "A") for x in between]
    closing = [*rows, _payment(2, "A", "B")]
    assert named(closing, "cycles_closed")[-1] == (n_neighbours if n_neighbours <= 64 else -1)
    one_hub = [*rows[: n_neighbours + 3], _payment(2, "A", "B")]
    assert named(one_hub, "cycles_closed")[-1] == 3

"""Features see strictly earlier rows only, whatever is added later and in whatever order."""

import datetime as dt
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.payments.features import FEATURE_MEANINGS, compute_features
from pv4fad.payments.features.graph import GRAPH_MEANINGS
from pv4fad.payments.schema import TRANSACTION_SCHEMA
from pv4fad.tables.earlier import AskedRows, EarlierRows, group_codes

# Features of the graph of payments have tests of their own.
NAMES = tuple(name for name in FEATURE_MEANINGS if name not in GRAPH_MEANINGS)
START = dt.datetime(2022, 1, 5, 8, 0)

# Few different values and times: rows share groups and timestamps often.
_row = st.fixed_dictionaries(
    {
        "Timestamp": st.sampled_from([START + dt.timedelta(minutes=45 * k) for k in range(6)]),
        "UETR": st.sampled_from(["u1", "u2"]),
        "Sender": st.sampled_from(["BANKFRPP", "BANKDEFF"]),
        "Receiver": st.sampled_from(["BANKUS33", "BANKGB2L"]),
        "TransactionReference": st.sampled_from(["PETX22-ABCDE-1234", "PETX22-ABCDE-1235", None]),
        "OrderingAccount": st.sampled_from(["FR01", "FR02"]),
        "OrderingName": st.sampled_from(["A NAME", "B NAME", None]),
        "OrderingStreet": st.sampled_from(["1 A STREET", "2 A STREET"]),
        "OrderingCountryCityZip": st.just("FR/42859 VILLE"),
        "BeneficiaryAccount": st.sampled_from(["DE01", "DE02"]),
        "BeneficiaryName": st.sampled_from(["C NAME", None]),
        "BeneficiaryStreet": st.just("3 C STREET"),
        "BeneficiaryCountryCityZip": st.just("DE/12345 STADT"),
        "SettlementDate": st.sampled_from([dt.date(2022, 1, day) for day in (3, 5, 6)]),
        "SettlementCurrency": st.sampled_from(["EUR", "USD"]),
        "SettlementAmount": st.sampled_from([0.0, 0.01, 17.0, 1234.56, 9e12]),
        "InstructedCurrency": st.sampled_from(["EUR", "USD"]),
        "InstructedAmount": st.sampled_from([0.0, 100.0, 1e6]),
    }
)
_rows = st.lists(_row, min_size=1, max_size=12)


def frame(rows: list[dict[str, object]], first_id: int = 0) -> pl.DataFrame:
    keyed = [{"MessageId": f"TR{n:08d}", "Label": 0, **row} for n, row in enumerate(rows, first_id)]
    return pl.DataFrame(keyed, schema=TRANSACTION_SCHEMA)


@settings(max_examples=100)
@given(_rows, _rows)
def test_no_feature_changes_when_rows_are_added_that_are_not_earlier(rows, added):
    first = min(row["Timestamp"] for row in added)
    alone = compute_features(frame(rows)).values
    together = compute_features(frame(rows + added)).values[: len(rows)]
    unaffected = [n for n, row in enumerate(rows) if row["Timestamp"] <= first]
    np.testing.assert_array_equal(together[unaffected], alone[unaffected])


@settings(max_examples=60)
@given(_rows, st.randoms(use_true_random=False))
def test_no_feature_depends_on_the_order_of_rows(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = compute_features(frame(rows)[order]).values
    np.testing.assert_array_equal(shuffled, compute_features(frame(rows)).values[order])


@settings(max_examples=60)
@given(_rows, _rows)
def test_scoring_continues_from_the_history(earlier, rows):
    continued = compute_features(frame(rows, len(earlier)), history=frame(earlier)).values
    together = compute_features(frame(earlier + rows)).values[len(earlier) :]
    np.testing.assert_array_equal(continued, together)


@settings(max_examples=60)
@given(_rows)
def test_features_equal_a_row_by_row_computation(rows):
    computed = compute_features(frame(rows))
    assert computed.names == (*NAMES, *GRAPH_MEANINGS)
    assert computed.values.dtype == np.float32
    expected = [[_expected(row, rows)[name] for name in NAMES] for row in rows]
    np.testing.assert_allclose(computed.values[:, : len(NAMES)], expected, rtol=1e-4, atol=1e-4)


def _expected(row: dict, rows: list[dict]) -> dict[str, float]:
    past = [other for other in rows if other["Timestamp"] < row["Timestamp"]]

    def seen(*columns: str) -> int:
        return sum(all(other[c] == row[c] for c in columns) for other in past)

    def delay(r: dict) -> int:
        return (r["SettlementDate"] - r["Timestamp"].date()).days

    def share(part: int, *columns: str) -> float:
        return (part + 1) / (seen(*columns) + 1)

    def log(value: float) -> float:
        return float(np.log(max(value, 0.01)))

    of_sender = [other for other in past if other["Sender"] == row["Sender"]]
    amounts = [
        log(other["SettlementAmount"])
        for other in of_sender
        if other["SettlementCurrency"] == row["SettlementCurrency"]
    ]
    n, mean = len(amounts), float(np.mean(amounts)) if amounts else 0.0
    variance = (sum((a - mean) ** 2 for a in amounts) + 5.0) / (n + 5.0)
    amount = log(row["SettlementAmount"])
    identity = {
        side: (f"{side}Account", f"{side}Name", f"{side}Street", f"{side}CountryCityZip")
        for side in ("Ordering", "Beneficiary")
    }
    hour = row["Timestamp"].hour
    return {
        "settlement_delay_days": delay(row),
        "sender_delay_share": share(sum(delay(o) == delay(row) for o in of_sender), "Sender"),
        "currency_mismatch": row["SettlementCurrency"] != row["InstructedCurrency"],
        "log_amount": amount,
        "log_amount_ratio": amount - log(row["InstructedAmount"]),
        "amount_z": (amount - mean) / variance**0.5 if n else 0.0,
        "hour": hour,
        "sender_hour_share": share(sum(o["Timestamp"].hour == hour for o in of_sender), "Sender"),
        "sender_currency_share": share(seen("Sender", "SettlementCurrency"), "Sender"),
        "sender_exchange_share": share(
            seen("Sender", "SettlementCurrency", "InstructedCurrency"), "Sender"
        ),
        "corridor_share": share(seen("Sender", "Receiver"), "Sender"),
        "sender_seen": seen("Sender"),
        "receiver_seen": seen("Receiver"),
        "legs_seen": seen("UETR"),
        "account_pair_seen": seen("OrderingAccount", "BeneficiaryAccount"),
        "ordering_account_seen": seen("OrderingAccount"),
        "beneficiary_account_seen": seen("BeneficiaryAccount"),
        "reference_seen": seen("TransactionReference"),
        "ordering_name_missing": row["OrderingName"] is None,
        "ordering_identity_share": share(seen(*identity["Ordering"]), "OrderingAccount"),
        "beneficiary_name_missing": row["BeneficiaryName"] is None,
        "beneficiary_identity_share": share(seen(*identity["Beneficiary"]), "BeneficiaryAccount"),
    }


def test_the_label_is_not_looked_at():
    rows = frame([{"Timestamp": START, "SettlementDate": START.date(), "UETR": "u"}] * 3)
    rows = rows.with_columns(SettlementAmount=1.0, InstructedAmount=1.0)
    assert np.isfinite(compute_features(rows.drop("Label")).values).all()


@pytest.mark.parametrize("n_history", [0, 2])
def test_no_rows_give_no_features(n_history):
    rows = frame([{"Timestamp": START, "SettlementDate": START.date(), "UETR": "u"}] * n_history)
    rows = rows.with_columns(SettlementAmount=1.0, InstructedAmount=1.0)
    assert compute_features(rows.clear(), rows).values.shape == (0, len(FEATURE_MEANINGS))


def test_group_codes_tell_combinations_apart_beyond_32_bits():
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**31 - 1, 500)[rng.integers(0, 500, 2000)] for _ in range(4)]
    codes = group_codes(*parts)
    combinations = {tuple(row) for row in zip(*(part.tolist() for part in parts), strict=True)}
    assert codes.min() >= 0
    assert codes.max() < 2**31
    assert len(np.unique(codes)) == len(combinations)
    pairs = {(int(c), *row) for c, *row in zip(codes, *(p.tolist() for p in parts), strict=True)}
    assert len(pairs) == len(combinations)


def test_sums_over_earlier_rows_are_exact():
    group, time = np.array([1, 0, 1, 1, 0, 1]), np.array([2, 0, 0, 2, 5, 3])
    values = np.array([2**60, 7, 5, 11, 13, 17])
    earlier = EarlierRows.of(group, time)
    assert earlier.count().tolist() == [1, 0, 0, 1, 1, 3]
    assert earlier.sum(values).tolist() == [5, 0, 0, 5, 7, 2**60 + 16]
    for start in range(len(group) + 1):
        asked = AskedRows(time, start).earlier(group)
        assert asked.count().tolist() == [1, 0, 0, 1, 1, 3][start:]
        assert asked.sum(values).tolist() == [5, 0, 0, 5, 7, 2**60 + 16][start:]


def test_memory_for_totals_follows_from_the_rows_and_not_from_their_codes():
    group, time = np.full(3, 2**31 - 1), np.arange(3)
    asked = AskedRows(time, 2)
    tracemalloc.start()
    try:
        assert asked.earlier(group).count().tolist() == [2]
        assert asked.earlier(group).sum(np.array([5, 7, 11])).tolist() == [12]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

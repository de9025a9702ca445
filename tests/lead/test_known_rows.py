"""Rows that arrive a few at a time look as the batch code says, bit for bit."""

import datetime as dt
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.both_ways import assert_equal_both_ways, assert_says

from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.known_rows import KnownRows, Snapshot
from pv4fad.lead.rows import fingerprint, new_rows
from pv4fad.payments.generate import Settings, generate_tables
from pv4fad.payments.schema import SCHEMA, TRANSACTION_SCHEMA
from pv4fad.schema import Schema
from pv4fad.tables.incremental import numbering, timed_sums

START = dt.datetime(2022, 1, 5, 8, 0)
# Ties, windows that end exactly on a payment, and gaps of more than a week.
_MOMENTS = [dt.timedelta(hours=h) for h in (0, 1, 24, 25, 48, 168, 169, 192, 400)]

# Few accounts, on both sides: pairs repeat, are reciprocated, and an account may pay itself.  Legs
# of a payment differ in everything.
_message = st.fixed_dictionaries(
    {
        "Timestamp": st.sampled_from([START + moment for moment in _MOMENTS]),
        "UETR": st.sampled_from([f"u{n}" for n in range(7)]),
        "Sender": st.sampled_from(["BANKFRPP", "BANKDEFF"]),
        "Receiver": st.sampled_from(["BANKUS33", "BANKDEFF"]),
        "TransactionReference": st.sampled_from(["PETX22-ABCDE-1234", "PETX22-ABCDE-1235", None]),
        "OrderingAccount": st.sampled_from(["A", "B", "C", "D"]),
        "OrderingName": st.sampled_from(["A NAME", "B NAME", None]),
        "OrderingStreet": st.sampled_from(["1 A STREET", None]),
        "OrderingCountryCityZip": st.just("FR/42859 VILLE"),
        "BeneficiaryAccount": st.sampled_from(["A", "B", "C", "E"]),
        "BeneficiaryName": st.sampled_from(["A NAME", None]),
        "BeneficiaryStreet": st.just("3 C STREET"),
        "BeneficiaryCountryCityZip": st.sampled_from(["FR/42859 VILLE", None]),
        "SettlementDate": st.sampled_from([dt.date(2022, 1, day) for day in (3, 5, 6)]),
        "SettlementCurrency": st.sampled_from(["EUR", "USD"]),
        "SettlementAmount": st.sampled_from([0.0, 0.01, 17.0, 1234.56, 9e12]),
        "InstructedCurrency": st.sampled_from(["EUR", "USD"]),
        "InstructedAmount": st.sampled_from([0.0, 100.0, 1e6]),
        "Label": st.integers(0, 1),
    }
)


def messages(rows: list[dict], ids: list[int]) -> pl.DataFrame:
    numbered = [{"MessageId": f"TR{n:08d}", **row} for n, row in zip(ids, rows, strict=True)]
    return pl.DataFrame(numbered, schema=TRANSACTION_SCHEMA)


def parts(rows: pl.DataFrame, sizes: list[int]) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """The training rows, and batches; the last one has what is left."""
    ends = np.minimum(np.cumsum(sizes), rows.height).tolist()
    cut = [rows[begin:end] for begin, end in zip([0, *ends], [*ends, rows.height], strict=True)]
    return cut[0], [batch.drop("Label", strict=False) for batch in cut[1:]]


_sizes = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(st.lists(_message, min_size=1, max_size=18), _sizes, st.data())
@settings(max_examples=120, deadline=None)
def test_payments_that_arrive_in_any_order_look_as_in_one_batch(rows, sizes, data):
    ids = data.draw(st.permutations(range(len(rows))))
    assert_equal_both_ways(SCHEMA, *parts(messages(rows, ids), sizes))


# Schemas of other worlds.

SIDES = ("patient", "doctor", "hospital")
_claim = st.fixed_dictionaries(
    {
        "Time": st.integers(0, 4).map(lambda hours: START + dt.timedelta(hours=7 * hours)),
        "Event": st.sampled_from("uvw"),
        "Amount": st.none() | st.integers(-3, 10**6).map(float),
        "Kind": st.none() | st.sampled_from("xyz"),
        "Clinic": st.none() | st.sampled_from(["north", "south"]),
        **{side: st.sampled_from("ab") for side in SIDES},
        "Label": st.integers(0, 1),
    }
)
_CLAIMS = {
    "Id": pl.String, "Time": pl.Datetime("us"), "Event": pl.String, "Amount": pl.Float64,
    "Kind": pl.String, "Clinic": pl.String, **dict.fromkeys(SIDES, pl.String), "Label": pl.Int8,
}  # fmt: skip


def claims(rows: list[dict], ids: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        [{"Id": str(n), **row} for n, row in zip(ids, rows, strict=True)], schema=_CLAIMS
    )


def claims_schema(n_sides: int, event: str | None, **rows: object) -> Schema:
    """The holder of a side is what the first or last row of the event says, what each row says, or
    unknown."""
    holders: list[dict] = [{"holder": "Clinic"}, {}, {"holder": "Clinic"}]
    if event is not None:
        holders = [{"holder": "Clinic", "leg": leg} for leg in ("first", "last")] + [{}]
    return Schema(
        name="claims",
        rows={
            "id": "Id",
            "time": "Time",
            "event": event,
            "numbers": ("Amount",),
            "categories": ("Kind",),
            **rows,
        },
        sides={
            side: {"id": side, **holder}
            for side, holder in zip(SIDES[:n_sides], holders, strict=False)
        },
        record={"classes": ("ordinary", "watch")},
    )


@pytest.mark.parametrize("n_sides", [1, 2, 3])
@pytest.mark.parametrize("event", [None, "Event"])
@given(rows=st.lists(_claim, min_size=1, max_size=18), sizes=_sizes, data=st.data())
@settings(max_examples=60, deadline=None)
def test_claims_that_arrive_in_any_order_look_as_in_one_batch(n_sides, event, rows, sizes, data):
    ids = data.draw(st.permutations(range(len(rows))))
    schema = claims_schema(n_sides, event)
    assert_equal_both_ways(schema, *parts(claims(rows, ids), sizes))


def test_features_without_the_past_look_as_in_one_batch():
    rows = [
        {"Time": START, "Kind": kind, "Amount": 1.0, "Label": 0, **dict.fromkeys(SIDES, "a")}
        for kind in "xyyzx"
    ]
    schema = claims_schema(2, None, history=False)
    assert_equal_both_ways(schema, *parts(claims(rows, list(range(5))), [3, 1]))


# A day, replayed.


@pytest.fixture(params=["challenge", "hard"])
def days(request) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Training rows, and the messages of the day from noon to noon after them, in order of time."""
    made = generate_tables(Settings(9_000, 6, request.param, seed=5))
    rows = pl.concat([made.train.transactions, made.test.transactions]).sort("Timestamp")
    noon = pl.Series([rows["Timestamp"].max()]).dt.truncate("1d").dt.offset_by("12h").item()
    begin = noon - dt.timedelta(days=1)
    training = rows.filter(pl.col("Timestamp") < begin)
    day = rows.filter(pl.col("Timestamp").is_between(begin, noon, closed="left")).drop("Label")
    accounts = training["BeneficiaryAccount"].to_list()
    assert day["UETR"].is_in(training["UETR"].to_list()).any()
    assert not day["BeneficiaryAccount"].is_in(accounts).all()
    assert day["BeneficiaryAccount"].is_in(accounts).any()
    assert not day["UETR"].is_unique().all()
    assert not day["Timestamp"].is_unique().all()
    return training, day


@pytest.fixture
def short_runs(monkeypatch):
    """Merged many times, also by their thread."""
    monkeypatch.setattr(timed_sums, "_SHORT", 300)
    monkeypatch.setattr(timed_sums, "_LONG", 5_000)
    monkeypatch.setattr(numbering, "_MOST_LATELY", 400)


@pytest.mark.usefixtures("short_runs")
def test_a_day_replayed_in_order_has_the_features_of_one_batch(days):
    training, day = days
    known = KnownRows.of(SCHEMA, training)
    batches = [*day[:40].iter_slices(1), *day[40:].iter_slices(50)]
    values = [known.take(batch).features.values for batch in batches]
    expected = new_rows(SCHEMA, day, training).features.values
    np.testing.assert_array_equal(np.concatenate(values).view(np.int32), expected.view(np.int32))
    assert len(known) == training.height + day.height


@pytest.mark.usefixtures("short_runs")
def test_a_day_with_late_messages_looks_as_in_one_batch_whenever_a_message_arrives(days):
    training, day = days
    late = np.random.default_rng(1).integers(0, 6 * 60, day.height)  # minutes
    order = np.argsort(day["Timestamp"].to_physical().to_numpy() + late * 60_000_000)
    batches = list(day[order].iter_slices(31))
    assert_equal_both_ways(SCHEMA, training, batches)


# After a restart.


def stored(snapshot: Snapshot) -> Snapshot:
    """Read again from bytes, which nobody can write to."""
    arrays = {
        name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
        for name, array in snapshot.arrays.items()
    }
    return replace(snapshot, arrays=arrays)


@pytest.mark.usefixtures("short_runs")
def test_a_state_that_was_stored_goes_on_as_if_it_had_not_been(days):
    training, day = days
    known = KnownRows.of(SCHEMA, training)
    known.take(day[:50])
    snapshot = known.snapshot()
    known.take(day[50:90])  # does not change it
    restored = KnownRows.of_snapshot(SCHEMA, stored(snapshot))
    assert snapshot.n_rows == len(restored) == training.height + 50
    assert restored.training == known.training == fingerprint(training)
    restored.add(day[50:90])
    for batch in (day[90:91], day[91:150]):
        found = restored.take(batch)
        assert_says(found, known.take(batch))
    assert_says(found, new_rows(SCHEMA, day[:150], training))


@pytest.mark.parametrize("event", [None, "Event"])
@given(rows=st.lists(_claim, min_size=1, max_size=18), data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_stored_state_of_claims_goes_on_as_if_it_had_not_been(event, rows, data):
    schema, all_rows = claims_schema(2, event), claims(rows, list(range(len(rows))))
    cut = data.draw(st.integers(0, len(rows)))
    training, after = all_rows[: cut // 2], all_rows[cut:].drop("Label")
    before = all_rows[cut // 2 : cut].drop("Label")
    known = KnownRows.of(schema, training)
    known.add(before)
    known = KnownRows.of_snapshot(schema, stored(known.snapshot()))
    assert_says(known.take(after), new_rows(schema, pl.concat([before, after]), training))


def test_a_snapshot_of_another_schema_is_refused():
    known = KnownRows.of(claims_schema(2, None), claims([], []))
    with pytest.raises(DataError, match="of another schema"):
        KnownRows.of_snapshot(claims_schema(2, "Event"), known.snapshot())


# What cannot be.


def test_a_function_of_the_leads_own_has_no_incremental_form():
    own = claims_schema(2, None, numbers=(), categories=(), features="clinic:features")
    with pytest.raises(ParameterError, match=r"rows\.features: clinic:features"):
        KnownRows.of(own, claims([], []))


def test_training_rows_need_labels():
    with pytest.raises(DataError, match="no column Label"):
        KnownRows.of(claims_schema(2, None), claims([], []).drop("Label"))


@pytest.mark.parametrize("column", ["Id", "Time", "Event", "doctor"])
def test_rows_that_are_refused_change_nothing(column):
    row = {"Time": START, "Event": "u", "Label": 0, **dict.fromkeys(SIDES, "a")}
    training, good = claims([row, row], [1, 2]), claims([row], [3])
    bad = good.with_columns(pl.lit(None, _CLAIMS[column]).alias(column))
    schema = claims_schema(2, "Event")
    known = KnownRows.of(schema, training)
    with pytest.raises(DataError, match=f"column '{column}'"):
        known.take(bad)
    with pytest.raises(DataError, match=f"no column '{column}'"):
        known.take(good.drop(column))
    with pytest.raises(DataError, match="'Amount' is infinite or too large"):
        known.take(good.with_columns(Amount=1e39))
    assert len(known) == 2
    assert_says(known.take(good), new_rows(schema, good, training))

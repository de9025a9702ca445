"""Features of tables: equal to plain loops, strictly from the past, the same in scoring."""

import datetime as dt
import sys
from collections import Counter
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.errors import DataError, ParameterError
from pv4fad.schema import Schema
from pv4fad.tables.features import FeatureTable, compute_features

START = dt.datetime(2024, 3, 1, 9)
SIDES = ("patient", "doctor", "hospital")
RECORD = {"classes": ("ordinary", "watch")}

# Few different values and times: rows share ids, events and times often, and values are missing.
_row = st.fixed_dictionaries(
    {
        "Time": st.integers(0, 3).map(lambda hours: START + dt.timedelta(hours=7 * hours)),
        "Event": st.sampled_from(["u", "u", "v", "v", None]),
        "Amount": st.none() | st.integers(-3, 10**6).map(float),
        "Kind": st.none() | st.sampled_from("xyz"),
        **{side: st.sampled_from(["a", "a", "b", "b", "b", None]) for side in SIDES},
    }
)
_SCHEMA = {
    "Id": pl.String, "Time": pl.Datetime("us"), "Event": pl.String, "Amount": pl.Float64,
    "Kind": pl.String, **dict.fromkeys(SIDES, pl.String),
}  # fmt: skip
_rows = st.lists(_row, max_size=14)
_some = pytest.mark.parametrize("n_sides", [1, 2, 3])
_events = pytest.mark.parametrize("event", [None, "Event"])


def table(rows: list[dict]) -> pl.DataFrame:
    numbered = [{"Id": str(number), **row} for number, row in enumerate(rows)]
    return pl.DataFrame(numbered, schema=_SCHEMA)


def schema(n_sides: int, **rows: object) -> Schema:
    given = {"id": "Id", "time": "Time", "numbers": ("Amount",), "categories": ("Kind",)} | rows
    sides = {side: {"id": side} for side in SIDES[:n_sides]}
    return Schema(name="claims", rows=given, sides=sides, record=RECORD)


def by_loops(n_sides: int, event: str | None, rows: list[dict], history: list[dict] | None):
    """The same features as the words of the docs say them."""
    kinds = Counter(row["Kind"] for row in (rows if history is None else history))
    del kinds[None]
    order = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    everything = [*(history or []), *rows]
    sides = SIDES[:n_sides]
    return [_of_row(row, everything, sides, event, order) for row in rows]


def _of_row(row, everything, sides, event, order) -> list[float]:
    nan = np.nan
    past = [
        other
        for other in everything
        if other["Time"] < row["Time"]
        and not (event and row[event] is not None and other[event] == row[event])
    ]
    kind = row["Kind"]
    found = [
        nan if row["Amount"] is None else row["Amount"],
        nan if kind is None else order.index(kind) if kind in order else len(order),
    ]
    for side in sides:
        if row[side] is None:
            found += [nan] * (2 if len(sides) == 1 else 3)
            continue
        same = [other for other in past if other[side] == row[side]]
        found.append(len(same))
        last = max((other["Time"] for other in same), default=None)
        found.append(nan if last is None else (row["Time"] - last) / dt.timedelta(days=1))
        if len(sides) > 1:
            others = {tuple(other[name] for name in sides if name != side) for other in same}
            found.append(sum(None not in ids for ids in others))
    if len(sides) > 1:
        ids = [row[side] for side in sides]
        is_first = all([other[side] for side in sides] != ids for other in past)
        found.append(nan if None in ids else float(is_first))
    return found


@_some
@_events
@given(rows=_rows, history=st.none() | _rows)
@settings(max_examples=150, deadline=None)
def test_features_equal_plain_loops(n_sides, event, rows, history):
    computed = compute_features(
        schema(n_sides, event=event), table(rows), None if history is None else table(history)
    )
    expected = by_loops(n_sides, event, rows, history)
    assert computed.values.dtype == np.float32
    shape = (len(rows), {1: 4, 2: 9, 3: 12}[n_sides])
    np.testing.assert_allclose(computed.values, np.reshape(expected, shape), rtol=1e-6)


def test_features_by_hand():
    events = ["u", "v", "u", "v", "w"]
    days = [1, 2, 2, 3, 5]
    rows = pl.DataFrame(
        {
            "Time": pl.Series([dt.date(2024, 3, day) for day in days]),
            "Event": events,
            "patient": ["anna", "anna", "anna", "anna", "bert"],
            "doctor": [7, 7, 8, 7, 7],
        }
    )
    only_history = schema(2, numbers=(), categories=(), event="Event")
    nan = np.nan
    expected = [
        [0, nan, 0, 0, nan, 0, 1],
        [1, 1, 1, 1, 1, 1, 0],  # sees the first row
        [0, nan, 0, 0, nan, 0, 1],  # the first row is of its event, the second not earlier
        [2, 1, 2, 1, 2, 1, 0],  # sees the first and the third row
        [0, nan, 0, 3, 2, 1, 1],  # a doctor who saw anna only
    ]
    computed = compute_features(only_history, rows).values
    np.testing.assert_allclose(computed, expected, rtol=1e-6)


def test_names_say_side_and_feature():
    assert compute_features(schema(2), table([])).names == (
        "Amount", "Kind",
        "patient_rows_before", "patient_days_since", "patient_others_before",
        "doctor_rows_before", "doctor_days_since", "doctor_others_before",
        "first_dealing",
    )  # fmt: skip
    one_side = compute_features(schema(1, numbers=(), categories=()), table([]))
    assert one_side.names == ("patient_rows_before", "patient_days_since")
    no_history = compute_features(schema(2, history=False), table([]))
    assert no_history.names == ("Amount", "Kind")


@given(data=st.data(), rows=st.lists(_row, min_size=1, max_size=14))
@settings(max_examples=200, deadline=None)
def test_a_row_that_is_not_strictly_earlier_changes_nothing(data, rows):
    past_only = schema(3, event="Event", categories=())
    position = data.draw(st.integers(0, len(rows) - 1))
    time, before = rows[position]["Time"], compute_features(past_only, table(rows))
    other = data.draw(st.integers(0, len(rows) - 1))
    if other == position or rows[other]["Time"] < time:
        return
    changed = data.draw(st.none() | _row.filter(lambda row: row["Time"] >= time))
    altered = [*rows[:other], *([] if changed is None else [changed]), *rows[other + 1 :]]
    after = compute_features(past_only, table(altered))
    moved = position - (changed is None and other < position)
    np.testing.assert_array_equal(before.values[position], after.values[moved])


@given(rows=st.lists(_row, min_size=1, max_size=14), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_does_not_matter(rows, data):
    order = data.draw(st.permutations(range(len(rows))))
    given_order = compute_features(schema(3, event="Event"), table(rows)).values
    other_order = compute_features(schema(3, event="Event"), table([rows[n] for n in order]))
    np.testing.assert_array_equal(given_order[list(order)], other_order.values)


@given(history=_rows, rows=_rows)
@settings(max_examples=100, deadline=None)
def test_scoring_continues_from_the_training_rows(history, rows):
    past_only = schema(2, event="Event", categories=())
    scored = compute_features(past_only, table(rows), table(history)).values
    together = compute_features(past_only, table([*history, *rows])).values
    np.testing.assert_array_equal(scored, together[len(history) :])


@given(rows=_rows)
@settings(max_examples=50, deadline=None)
def test_categories_have_the_numbers_of_training(rows):
    only_kind = schema(1, numbers=(), history=False)
    trained = compute_features(only_kind, table(rows)).values
    scored = compute_features(only_kind, table(rows[::-1]), table(rows)).values
    np.testing.assert_array_equal(trained, scored[::-1])


@pytest.mark.parametrize("name", ["value", "rows", "n", "count", "literal"])
def test_any_name_of_a_column_will_do(name):
    rows = _claims(**{name: ["x", "y", "y"]}).rename({"Kind": "Other"})
    only_kind = schema(1, numbers=(), categories=(name,), history=False)
    np.testing.assert_array_equal(compute_features(only_kind, rows).values, [[1], [0], [0]])


def test_times_can_be_dates_and_ids_numbers():
    days = pl.Series("Time", [3, 10, 4], pl.Int32).cast(pl.Date)
    rows = pl.DataFrame({"Id": ["1", "2", "3"], "Time": days, "patient": [7, 7, 7]})
    computed = compute_features(schema(1, numbers=(), categories=()), rows)
    np.testing.assert_array_equal(computed.values, [[0, np.nan], [2, 6], [1, 1]])


def _claims(**changes: object) -> pl.DataFrame:
    row = {"Time": START, "Event": "u", "Amount": 1.0, "Kind": "x"} | dict.fromkeys(SIDES, "a")
    columns = {name: pl.Series(name, [values] * 3) for name, values in row.items()}
    for name, values in changes.items():
        columns[name] = pl.Series(name, values, strict=False)
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (_claims().drop("Amount"), "no column 'Amount'"),
        (_claims().drop("Kind"), "no column 'Kind'"),
        (_claims().drop("doctor"), "no column 'doctor'"),
        (_claims().drop("Event"), "no column 'Event'"),
        (_claims(Amount=["1", "2", "3"]), "'Amount' must have numbers, and has String"),
        (_claims(Amount=[1.0, np.inf, 0.0]), "'Amount' is infinite or too large in row 2"),
        (_claims(Amount=[1.0, 0.0, 1e39]), "'Amount' is infinite or too large in row 3"),
        (_claims(Time=["1", "2", "3"]), "'Time' must have dates or times, and has String"),
        (_claims(Time=[START, None, START]), "'Time': every row must have a time"),
    ],
)
def test_unfit_tables_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        compute_features(schema(2, event="Event"), rows)


def test_a_column_with_the_name_of_a_history_feature_is_refused():
    wrong = schema(1, numbers=("patient_rows_before",))
    with pytest.raises(ParameterError, match="'patient_rows_before' has the name"):
        compute_features(wrong, _claims(patient_rows_before=[1, 2, 3]))


# A function of the lead's own.


@pytest.fixture
def call(monkeypatch):
    """Features of three rows by a function that returns or does what is given."""

    def run(result: object) -> FeatureTable:
        module = ModuleType("clinic_features")
        module.features = result if callable(result) else lambda rows, history: result
        monkeypatch.setitem(sys.modules, "clinic_features", module)
        return compute_features(
            schema(2, numbers=(), categories=(), features="clinic_features:features"), _claims()
        )

    return run


def test_a_function_computes_the_features_instead(call):
    values = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]])
    expected = values.astype(np.float32)
    frame = pl.DataFrame({"a": [1, 2, 3], "b": [None, 5.0, 6.0]})
    for found in (call(FeatureTable(("a", "b"), values)), call(frame)):
        assert found.names == ("a", "b")
        assert found.values.dtype == np.float32
        np.testing.assert_array_equal(found.values, expected)
    given = call(lambda rows, history: rows.select("Amount") if history is None else None)
    assert given.names == ("Amount",)


def test_a_function_does_not_see_labels(monkeypatch):
    module = ModuleType("clinic_features")
    module.features = lambda rows, history: pl.DataFrame(
        {"n": [len({"Label"} & {*rows.columns, *history.columns})] * rows.height}
    )
    monkeypatch.setitem(sys.modules, "clinic_features", module)
    own = schema(2, numbers=(), categories=(), features="clinic_features:features")
    labelled = _claims(Label=[0, 1, 0])
    for history in (labelled, _claims()):
        assert compute_features(own, labelled, history).values.tolist() == [[0], [0], [0]]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "must return a FeatureTable or a polars DataFrame, not NoneType"),
        (np.zeros((3, 2)), "not ndarray"),
        (pl.DataFrame({"a": [1, 2]}), r"shape \(2, 1\).*3 rows and 1 names.*\(3, 1\)"),
        (pl.DataFrame(), "there is no feature"),
        (pl.DataFrame({"a": ["1", "2", "3"]}), "'a' must have numbers, and has String"),
        (pl.DataFrame({"a": [START] * 3}), "'a' must have numbers, and has Datetime"),
        (
            pl.DataFrame({"b": 0.0, "a": [0.0, np.inf, 0.0]}),
            "'a' is infinite or too large in row 2",
        ),
        (FeatureTable(("a", "a"), np.zeros((3, 2))), "the name 'a' is there twice"),
        (FeatureTable(("a",), np.zeros((3, 2))), r"shape \(3, 2\).*1 names"),
        (FeatureTable(("a",), np.zeros(3)), r"shape \(3,\)"),
        (FeatureTable(("a",), np.full((3, 1), "x")), "an array of numbers"),
        (FeatureTable(("a",), [[1], [2], [3]]), "an array of numbers"),
    ],
)
def test_what_a_function_returns_is_checked(call, result, message):
    with pytest.raises(DataError, match=f"rows.features: clinic_features:features: .*{message}"):
        call(result)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:f", "cannot be imported: No module named 'no_such_module'"),
        ("pv4fad.no_such:f", "cannot be imported: No module named 'pv4fad.no_such'"),
        (".relative:f", "cannot be imported"),
        ("pv4fad.tables:no_such_name", "the module has no function 'no_such_name'"),
        ("pv4fad.schema:MOST_SIDES", "the module has no function 'MOST_SIDES'"),
    ],
)
def test_a_function_that_is_not_there_is_refused(path, message):
    with pytest.raises(ParameterError, match=f"rows.features: {path}: .*{message}"):
        compute_features(schema(1, numbers=(), categories=(), features=path), _claims())

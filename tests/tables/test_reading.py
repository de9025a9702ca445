"""Claims about reading rows and records: types, order, namespaces, classes, and every refusal."""

from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

from pv4fad.errors import DataError, ParameterError, UserError
from pv4fad.rules import rules_of
from pv4fad.schema import Schema, schema_of
from pv4fad.tables.reading import read_records, read_rows

CLASSES = ("ordinary", "watch", "blocked")


def claims(**changes: object) -> Schema:
    """A schema with two sides; changes are by dotted key, with __ for the dot."""
    content: dict[str, dict[str, object]] = {
        "rows": {
            "id": "ClaimId",
            "time": "Submitted",
            "label": "Fraud",
            "numbers": ["Amount"],
            "categories": ["Kind", "Hospital"],
        },
        "record": {"id": "Person", "classes": CLASSES},
    }
    sides = {
        "patient": {"id": "PatientId", "holder": "Hospital"},
        "doctor": {"id": "DoctorId", "holder": "Hospital"},
    }
    for key, value in changes.items():
        part, name = key.split("__")
        (content | sides)[part][name] = value
    return schema_of({"name": "claims", **content, "sides": sides})


def spaced(**changes: object) -> Schema:
    """Patients and doctors in different namespaces."""
    return claims(
        patient__namespace="patient",
        doctor__namespace="doctor",
        record__namespace="Role",
        **changes,
    )


def rows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Amount": [10.5, None, -3.0],
            "ClaimId": [1, 2, 3],
            "Submitted": [datetime(2022, 1, day, 8, 17, 0, 250_000) for day in (5, 6, 7)],
            "Fraud": [False, True, False],
            "PatientId": ["p1", "p2", "p1"],
            "DoctorId": [77, 78, 77],
            "Hospital": ["north", None, "south"],
            "Kind": ["a", "b", None],
            "Note": ["x", "y", "z"],
        }
    )


def records() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Person": ["p1", "p2", "d1"],
            "Role": ["patient", "patient", "doctor"],
            "Class": ["ordinary", "watch", "blocked"],
            "Rating": [1, 8, None],
            "Since": [date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1)],
        }
    )


class Foreign:
    """A table of another library, which polars can take over."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def _set(frame: pl.DataFrame, column: str, row: int, value: object) -> pl.DataFrame:
    """The frame with another value in one cell; rows are counted from 1."""
    here = pl.int_range(pl.len()) == row - 1
    return frame.with_columns(pl.when(here).then(pl.lit(value)).otherwise(column).alias(column))


# Rows


def test_rows_have_the_columns_of_the_schema_in_its_order_and_types() -> None:
    table = read_rows(claims(), rows(), labels_required=True)
    assert table.frame.schema == {
        "ClaimId": pl.String,
        "Submitted": pl.Datetime("us"),
        "Fraud": pl.Int8,
        "PatientId": pl.String,
        "Hospital": pl.String,
        "DoctorId": pl.String,
        "Amount": pl.Float64,
        "Kind": pl.String,
    }
    moment = datetime(2022, 1, 6, 8, 17, 0, 250_000)
    assert table.frame.row(1) == ("2", moment, 1, "p2", None, "78", None, "b")
    assert table.report.extra_columns == ("Note",)
    assert table.report.notes() == ["the rows: extra columns ignored: Note"]


def test_csv_parquet_and_frames_give_equal_rows(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "rows.csv", tmp_path / "rows.parquet"
    rows().write_csv(csv)
    rows().write_parquet(parquet)
    sources = [csv, parquet, rows(), rows().lazy(), Foreign(rows()), rows().to_dict()]
    expected = read_rows(claims(), rows(), labels_required=True).frame
    for source in sources:
        assert read_rows(claims(), source, labels_required=True).frame.equals(expected)


@pytest.mark.parametrize(
    "times",
    [
        ["2022-01-05", "2022-01-05 00:00:00", "2022-01-05T00:00:00.000Z"],
        [date(2022, 1, 5)] * 3,
        [datetime(2022, 1, 5)] * 3,
    ],
)
def test_a_date_is_its_first_moment(times: list[object]) -> None:
    frame = rows().with_columns(pl.Series("Submitted", times))
    read = read_rows(claims(), frame, labels_required=True).frame
    assert read["Submitted"].to_list() == [datetime(2022, 1, 5)] * 3


def test_nan_and_blank_values_are_missing() -> None:
    frame = _set(_set(rows(), "Amount", 1, float("nan")), "Hospital", 1, "  ")
    read = read_rows(claims(), frame, labels_required=True).frame
    assert read["Amount"].to_list() == [None, None, -3.0]
    assert read["Hospital"].to_list() == [None, None, "south"]


@pytest.mark.parametrize("one", ["1", 1.0, "1.0", "true", "True", " TRUE "])
def test_a_label_may_be_a_word_or_a_number(one: object) -> None:
    frame = rows().with_columns(pl.Series("Fraud", [one] * 3))
    assert read_rows(claims(), frame, labels_required=True).frame["Fraud"].to_list() == [1] * 3


def test_labels_are_optional_only_where_they_are_not_required() -> None:
    unlabelled = rows().drop("Fraud")
    assert "Fraud" not in read_rows(claims(), unlabelled, labels_required=False).frame.columns
    assert "Fraud" in read_rows(claims(), rows(), labels_required=False).frame.columns
    with pytest.raises(DataError, match=r"^the rows: column Fraud: missing$"):
        read_rows(claims(), unlabelled, labels_required=True)


def test_ids_of_rows_and_records_get_the_same_namespace() -> None:
    seen = read_rows(spaced(), rows(), labels_required=True).frame
    kept = read_records(spaced(), records(), holder="north").frame
    assert seen["PatientId"].to_list() == ["patient:p1", "patient:p2", "patient:p1"]
    assert seen["DoctorId"].to_list() == ["doctor:77", "doctor:78", "doctor:77"]
    assert kept["Id"].to_list() == ["patient:p1", "patient:p2", "doctor:d1"]


def test_bad_rows_can_be_dropped_and_are_counted() -> None:
    frame = _set(_set(rows(), "ClaimId", 2, 3), "PatientId", 1, "")
    table = read_rows(claims(), frame, labels_required=True, on_bad_rows="drop")
    assert table.frame["ClaimId"].to_list() == ["3"]
    assert table.report.n_rows_dropped == 2


BAD_ROWS = [
    (rows().drop("Submitted"), "column Submitted: missing"),
    (_set(rows(), "ClaimId", 2, 1), "column ClaimId: 1 row has an id that an earlier row has"),
    (_set(rows(), "ClaimId", 2, None), "column ClaimId: 1 row has no value; first: data row 2"),
    (_set(rows(), "PatientId", 3, " "), "column PatientId: 1 row has no value; first: data row 3"),
    (_set(rows(), "Submitted", 1, None), "column Submitted: 1 row has no value"),
    (rows().with_columns(Submitted=pl.lit("soon")), "column Submitted: 3 rows have an unparsable"),
    (rows().with_columns(Submitted=pl.lit(5)), "column Submitted: stored as Int32, not as date"),
    (_set(rows(), "Amount", 1, float("inf")), "column Amount: 1 row has no finite number"),
    (rows().with_columns(Amount=pl.lit("ten")), "column Amount: 3 rows have no finite number"),
    (rows().with_columns(Amount=pl.lit(value=True)), "column Amount: stored as Boolean, not as"),
    (rows().with_columns(Kind=pl.lit(1.5)), "column Kind: stored as Float64, not as category"),
    (rows().with_columns(DoctorId=pl.lit(1.5)), "column DoctorId: stored as Float64, not as id"),
    (rows().with_columns(Fraud=pl.lit(2)), "column Fraud: 3 rows have a label other than 0 and 1"),
    (_set(rows(), "Fraud", 1, None), "column Fraud: 1 row has no value"),
    (_set(rows(), "Hospital", 1, "a|b"), "column Hospital: 1 row has a holder with | in its name"),
    (rows().clear(), "the table is empty: it has no data row"),
    (pl.DataFrame({"a": [1]}), "none of the expected columns ClaimId, Submitted, Fraud, "),
    (rows().lazy().select("gone"), "not a readable table"),
    ({"ClaimId": [1, 2], "Fraud": [1]}, "not a readable table"),
    ("rows.csv", "str is neither a pathlib.Path nor a data frame"),
    (None, "NoneType is neither a pathlib.Path nor a data frame"),
]


@pytest.mark.parametrize(("source", "error"), BAD_ROWS)
def test_wrong_rows_get_a_clear_error(source: object, error: str) -> None:
    with pytest.raises(DataError) as refusal:
        read_rows(claims(), source, labels_required=True)
    assert str(refusal.value).startswith("the rows: ")
    assert error in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


# Records


def test_records_are_holder_id_and_class_and_nothing_else() -> None:
    table = read_records(claims(), records(), holder="north")
    assert table.frame.schema == {
        "Holder": pl.String,
        "Id": pl.String,
        "Class": pl.Enum(CLASSES),
    }
    assert table.frame.rows() == [
        ("north", "p1", "ordinary"),
        ("north", "p2", "watch"),
        ("north", "d1", "blocked"),
    ]
    assert table.report.extra_columns == ("Role", "Rating", "Since")


def test_csv_parquet_and_frames_give_equal_records(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "records.csv", tmp_path / "records.parquet"
    records().write_csv(csv)
    records().write_parquet(parquet)
    rules = rules_of(
        [
            {"class": "blocked", "column": "Rating", "missing": True},
            {"class": "watch", "column": "Since", "at_least": date(2021, 1, 1)},
        ]
    )
    for source in (csv, parquet, records(), records().lazy(), Foreign(records())):
        table = read_records(claims(), source, holder="north", rules=rules)
        assert table.frame["Class"].to_list() == ["ordinary", "watch", "blocked"]


def test_a_column_can_name_the_holder() -> None:
    schema = claims(record__holder="Ward")
    frame = records().with_columns(Ward=pl.Series(["w1", "w2", "w1"]))
    assert read_records(schema, frame, holder="north").frame["Holder"].to_list() == [
        "w1",
        "w2",
        "w1",
    ]


def test_one_id_at_two_holders_or_in_two_namespaces_is_two_records() -> None:
    frame = records().with_columns(Person=pl.lit("1"), Ward=pl.Series(["w1", "w2", "w1"]))
    schema = spaced(record__holder="Ward")
    assert read_records(schema, frame, holder="north").frame.height == 3


def test_own_rules_come_before_those_of_the_schema_and_these_before_the_column() -> None:
    schema = claims(record__rules=[{"class": "blocked", "column": "Rating", "above": 5}])
    own = rules_of([{"class": "watch", "column": "Rating", "above": 5}])
    kept = [
        read_records(claims(), records(), holder="h"),
        read_records(schema, records().drop("Class"), holder="h"),
        read_records(schema, records(), holder="h", rules=own),
    ]
    assert [table.frame["Class"].to_list() for table in kept] == [
        ["ordinary", "watch", "blocked"],
        ["ordinary", "blocked", "ordinary"],
        ["ordinary", "watch", "ordinary"],
    ]


def test_rules_can_read_the_id_and_the_class_column() -> None:
    conditions = [{"column": "Person", "is": "p2"}, {"column": "Class", "is": "watch"}]
    own = rules_of([{"class": "blocked", "all": conditions}])
    kept = read_records(claims(), records(), holder="h", rules=own).frame
    assert kept["Class"].to_list() == ["ordinary", "blocked", "ordinary"]


def test_a_record_listed_twice_with_one_class_counts_once() -> None:
    again = records().with_columns(Person=pl.col("Person") + " ")
    table = read_records(claims(), pl.concat([records(), again]), holder="h")
    assert table.frame.height == 3
    assert table.report.n_repeated == 3
    assert "the records of h: 3 repeated listings ignored" in table.report.notes()


def test_a_record_with_different_classes_is_refused_or_dropped() -> None:
    again = _set(records(), "Class", 2, "blocked")
    frame = pl.concat([records(), again])
    with pytest.raises(DataError, match="column Person: 2 rows have a record that is listed with"):
        read_records(claims(), frame, holder="h")
    table = read_records(claims(), frame, holder="h", on_bad_rows="drop")
    assert table.frame["Id"].to_list() == ["p1", "d1"]
    assert table.report.n_rows_dropped == 2


BAD_RECORDS = [
    (claims(), records().drop("Class"), None, "the records of h: column Class: missing"),
    (claims(), _set(records(), "Class", 1, "good"), None, "1 row has an unknown class (known: ord"),
    (claims(), _set(records(), "Class", 1, None), None, "column Class: 1 row has no value"),
    (claims(), _set(records(), "Person", 1, ""), None, "column Person: 1 row has no value"),
    (claims(record__holder="Ward"), records(), None, "column Ward: missing"),
    (spaced(), records().drop("Role"), None, "column Role: missing"),
    (spaced(), _set(records(), "Role", 1, "nurse"), None, "unknown namespace (known: doctor, pat"),
    (
        claims(),
        records(),
        {"class": "watch", "column": "Age", "above": 5},
        "the records of h: rule 1 (class 'watch'): there is no column 'Age'; the columns are: Pers",
    ),
    (
        claims(),
        records(),
        {"class": "watch", "column": "Rating", "is": "high"},
        "rule 1 (class 'watch'): column 'Rating' (Int64) cannot be compared with the text 'high'",
    ),
    (
        claims(),
        records(),
        {"class": "wach", "column": "Rating", "is": 1},
        "rule 1 (class 'wach'): there is no such class; the classes are: ordinary, watch, blocked",
    ),
]


@pytest.mark.parametrize(("schema", "frame", "rule", "error"), BAD_RECORDS)
def test_wrong_records_get_a_clear_error(
    schema: Schema, frame: pl.DataFrame, rule: dict[str, object] | None, error: str
) -> None:
    rules = rules_of([rule]) if rule else None
    with pytest.raises((DataError, ParameterError)) as refusal:
        read_records(schema, frame, holder="h", rules=rules)
    assert isinstance(refusal.value, UserError)
    assert error in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1

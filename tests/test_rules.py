"""Claims about rules: they mean what a loop over the rows would do, and each mistake is named."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.api.own_table import OwnTable
from pv4fad.errors import DataError, ParameterError, UserError
from pv4fad.rules import Rules, read_rules, rules_of
from pv4fad.store.records import from_bytes, to_bytes

CLASSES = ("ordinary", "watch", "blocked")


# The meaning, as a plain loop


def holds(cell: Any, asked: dict[str, Any]) -> bool:
    if "missing" in asked and asked["missing"] != (cell is None):
        return False
    others = {key: value for key, value in asked.items() if key not in ("column", "missing")}
    if cell is None:
        return not others
    compare = {
        "is": lambda value: cell == value,
        "in": lambda value: cell in value,
        "not_in": lambda value: cell not in value,
        "at_least": lambda value: cell >= value,
        "above": lambda value: cell > value,
        "at_most": lambda value: cell <= value,
        "below": lambda value: cell < value,
    }
    return all(compare[key](value) for key, value in others.items())


def class_of(row: dict[str, Any], rules: list[dict[str, Any]]) -> str:
    for rule in rules:
        if all(holds(row[part["column"]], part) for part in rule["all"]):
            return str(rule["class"])
    return CLASSES[0]


CELLS: dict[str, st.SearchStrategy[Any]] = {
    "Count": st.integers(-3, 3),
    "Rating": st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 2.0]),
    "Status": st.sampled_from(["open", "closed", "frozen", "Open"]),
    "Checked": st.booleans(),
    "Since": st.dates(date(2020, 1, 1), date(2020, 1, 4)),
    "Seen": st.datetimes(datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 1)),
}
TYPES = dict(
    zip(
        CELLS,
        [pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Date, pl.Datetime("us")],
        strict=True,
    )
)


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(sorted(CELLS)))
    several = st.lists(CELLS[name], min_size=1, max_size=3)
    keys: dict[str, st.SearchStrategy[Any]] = {
        "is": CELLS[name],
        "in": several,
        "not_in": several,
        "missing": st.just(False),
    }
    if name not in ("Status", "Checked"):
        keys |= dict.fromkeys(["at_least", "above", "at_most", "below"], CELLS[name])
    if draw(st.integers(0, 5)) == 0:
        return {"column": name, "missing": True}
    chosen = draw(st.lists(st.sampled_from(sorted(keys)), min_size=1, max_size=2, unique=True))
    return {"column": name} | {key: draw(keys[key]) for key in chosen}


RULE = st.fixed_dictionaries(
    {
        "class": st.sampled_from(CLASSES),
        "all": st.lists(conditions(), min_size=1, max_size=2),
    }
)
ROW = st.fixed_dictionaries({name: st.none() | cell for name, cell in CELLS.items()})


@given(st.lists(ROW, min_size=1, max_size=12), st.lists(RULE, max_size=4))
def test_rules_are_a_loop_over_the_rows_in_which_the_first_match_decides(
    rows: list[dict[str, Any]], rules: list[dict[str, Any]]
) -> None:
    try:
        checked = rules_of(rules)
    except ParameterError as error:  # a rule that an earlier one hides: the loop must agree
        number = int(str(error).split("rule ")[1].split()[0])
        reduced = rules[: number - 1] + rules[number:]
        assert [class_of(row, rules) for row in rows] == [class_of(row, reduced) for row in rows]
        return
    expected = [class_of(row, rules) for row in rows]
    frame = pl.DataFrame(rows, schema=TYPES)
    assert checked.classes_of(frame, CLASSES).to_list() == expected
    # The same as text, which is what a CSV file holds.
    text = frame.with_columns(pl.col("Seen").dt.to_string("iso")).cast(pl.String)
    assert checked.classes_of(text, CLASSES).to_list() == expected


# Values


def one(column: pl.Series, **asked: object) -> list[bool]:
    """Which rows a rule with one condition matches."""
    rules = rules_of([{"class": "watch", "column": "x", **asked}])
    found = rules.classes_of(column.alias("x").to_frame(), CLASSES)
    return [name == "watch" for name in found]


def test_nan_is_missing_and_satisfies_nothing_else() -> None:
    column = pl.Series([1.0, float("nan"), None])
    assert one(column, missing=True) == [False, True, True]
    assert one(column, missing=False) == [True, False, False]
    assert one(column, at_least=-1e300) == [True, False, False]
    assert one(column, not_in=[7]) == [True, False, False]


def test_a_column_without_values_is_missing_whatever_it_is_compared_with() -> None:
    for column in (pl.Series([None, " ", "NaN"]), pl.Series([None] * 3, dtype=pl.Null)):
        assert one(column, missing=True) == [True] * 3
        for asked in ({"is": "a"}, {"above": 1}, {"not_in": [True]}, {"missing": False}):
            assert one(column, **asked) == [False] * 3


def test_text_is_compared_as_what_the_rule_gives() -> None:
    codes = pl.Series(["07", "7", "7.0"])
    assert one(codes, **{"is": "07"}) == [True, False, False]
    assert one(codes, **{"is": 7}) == [True, True, True]
    assert one(pl.Series(["True", "false"]), **{"is": True}) == [True, False]


def test_whole_numbers_are_compared_exactly() -> None:
    large = 2**53
    column = pl.Series([large, large + 1])
    assert one(column, **{"is": large + 1}) == [False, True]
    assert one(pl.Series([0, 2**64 - 1], dtype=pl.UInt64), at_least=-1) == [True, True]
    assert one(pl.Series([-1, 100], dtype=pl.Int8), below=1000) == [True, True]
    assert one(pl.Series([1, 2]), above=1.5) == [False, True]
    for inexact in (column.cast(pl.String), column.cast(pl.UInt64), column.cast(pl.Float64)):
        with pytest.raises(DataError, match=rf"the number {large + 1}, which has too many digits"):
            one(inexact, **{"is": large + 1})
        assert one(inexact, above=large - 1) == [True, True]
        assert one(inexact, **{"is": large - 1}) == [False, False]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "b"])])
def test_text_can_be_stored_in_any_way(dtype: Any) -> None:
    assert one(pl.Series(["a", "b"], dtype=dtype), **{"in": ["b", "not there"]}) == [False, True]


def test_dates_and_moments_compare_with_each_other_and_time_zones_count() -> None:
    moments = pl.Series([datetime(2022, 1, 5), datetime(2022, 1, 5, 12)])
    assert one(moments, above=date(2022, 1, 5)) == [False, True]
    assert one(moments.cast(pl.Date), at_least=datetime(2022, 1, 5, 1)) == [False, False]
    assert one(moments, **{"is": "2022-01-05T12:00:00"}) == [False, True]
    texts = pl.Series(["2022-01-05T00:00:00Z", "2022-01-05 13:00:00.5+01:00"])
    assert one(texts, above=date(2022, 1, 5)) == [False, True]
    assert one(texts, at_least=datetime(2022, 1, 5, 12, 0, 1)) == [False, False]
    zoned = moments.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    east = datetime(2022, 1, 5, 14, tzinfo=timezone(timedelta(hours=2)))
    assert one(zoned, **{"is": east}) == [False, True]
    assert one(zoned, **{"is": datetime(2022, 1, 5, tzinfo=UTC)}) == [True, False]


@pytest.mark.parametrize(
    ("column", "asked", "error"),
    [
        (pl.Series(["a"]), {"at_least": 7}, "column 'x' (String) cannot be compared with the numb"),
        (pl.Series([1]), {"is": "a"}, "column 'x' (Int64) cannot be compared with the text 'a'"),
        (pl.Series(["1", "a"]), {"is": 1}, "compared with the number 1: data row 2 has no number"),
        (pl.Series(["soon"]), {"below": date(2022, 1, 5)}, "with the date 2022-01-05: data row 1"),
        (pl.Series([1]), {"in": [True]}, "column 'x' (Int64) cannot be compared with true"),
        (pl.Series([True]), {"is": 1}, "column 'x' (Boolean) cannot be compared with the number 1"),
        (pl.Series([1.5]), {"above": date(2022, 1, 5)}, "compared with the date 2022-01-05"),
        (pl.Series([date(2022, 1, 5)]), {"is": "May"}, "(Date) cannot be compared with the text"),
        (pl.Series([date(2022, 1, 5)]), {"below": 5}, "(Date) cannot be compared with the number"),
        (pl.Series([[1]]), {"is": 1}, "column 'x' (List(Int64)) cannot be compared"),
    ],
)
def test_a_rule_that_does_not_fit_the_column_is_refused(
    column: pl.Series, asked: dict[str, object], error: str
) -> None:
    content = [
        {"class": "blocked", "column": "x", "missing": True},
        {"class": "watch", "column": "x", **asked},
    ]
    with pytest.raises(DataError) as refusal:
        rules_of(content).classes_of(column.alias("x").to_frame(), CLASSES)
    assert str(refusal.value).startswith("rule 2 (class 'watch'): ")
    assert error in str(refusal.value)


# Files

TOML = """
[[rules]]
class = "blocked"
column = "Status"
in = ["frozen", "closed"]

[[rules]]
class = "watch"
all = [{ column = "Rating", at_least = 7, below = 9 }, { column = "Since", above = 2020-01-01 }]
"""
JSON = [
    {"class": "blocked", "column": "Status", "in": ["frozen", "closed"]},
    {
        "class": "watch",
        "all": [
            {"column": "Rating", "at_least": 7, "below": 9},
            {"column": "Since", "above": "2020-01-01"},
        ],
    },
]


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml, as_json = tmp_path / "rules.toml", tmp_path / "rules.json"
    toml.write_text(TOML)
    as_json.write_text(json.dumps({"rules": JSON}))
    rules = read_rules(toml)
    assert rules == read_rules(as_json)
    assert rules.columns == ("Status", "Rating", "Since")
    assert Rules.model_validate_json(rules.model_dump_json()) == rules


DATES = [
    date(2022, 1, 5),
    datetime(2022, 1, 5),
    datetime(2022, 1, 5, 12, 0, 0, 5),
    datetime(2022, 1, 5, tzinfo=UTC),
    datetime(2022, 1, 5, tzinfo=timezone(timedelta(hours=2))),
]


@pytest.mark.parametrize("moment", DATES, ids=str)
@pytest.mark.parametrize("key", ["is", "in", "not_in", "at_least", "below"])
def test_a_date_that_is_kept_is_still_a_date(key: str, moment: date) -> None:
    value = [moment] if key in ("in", "not_in") else moment
    rules = rules_of([{"class": "watch", "column": "x", key: value}])
    frame = pl.DataFrame({"x": ["2022-01-05", "2022-01-05 00:00:00Z", "2022-01-06"]})
    for kept in (
        Rules.model_validate_json(rules.model_dump_json()),
        rules_of(json.loads(rules.model_dump_json())["rules"]),
        from_bytes(OwnTable, to_bytes(OwnTable(b"", rules)), "kept").rules,
    ):
        assert kept == rules
        assert kept.classes_of(frame, CLASSES).equals(rules.classes_of(frame, CLASSES))


def test_a_date_and_the_text_that_looks_like_it_are_kept_apart() -> None:
    def kept(value: object) -> str:
        return rules_of([{"class": "watch", "column": "x", "is": value}]).model_dump_json()

    assert kept(date(2022, 1, 5)) != kept("2022-01-05")
    assert Rules.model_validate_json(kept("2022-01-05")).rules[0].all[0].is_ == "2022-01-05"
    column = pl.Series(["2022-01-05T00:00:00"])
    assert one(column, **{"is": {"date": "2022-01-05"}}) == [True]  # as rules in JSON write it
    assert one(column, **{"is": "2022-01-05"}) == [False]


RATING = '[[rules]]\nclass = "watch"\ncolumn = "Rating"\n'
BAD_FILES = [
    ("rules = 1", "rules must be a list; in TOML write [[rules]]"),
    ("[rules]\nclass = 'watch'", "rules must be a list"),
    ("rules = ['watch']", "rule 1: must be a table of keys and values"),
    ("", "must have a list called rules, and nothing else"),
    (RATING + "is = 1\n[other]", "must have a list called rules, and nothing else"),
    ("[[rules]", "Expected ']]'"),
    (RATING, "rule 1: column 'Rating': give a condition such as is, in or at_least"),
    (RATING + "equals = 1", "rule 1: equals: "),
    (RATING + "is = [1]", "rule 1: is: must be text, a finite number, true, false or a date"),
    (RATING + "is = { date = 'soon' }", "rule 1: is: date must be text such as 2022-01-05"),
    (RATING + "in = [{ date = 2022-01-05 }]", "rule 1: in.0: date must be text such as"),
    (RATING + "is = { day = 5 }", "rule 1: is: must be text, a finite number"),
    (RATING + "is = nan", "rule 1: is: must be text, a finite number"),
    (RATING + "is = 9223372036854775808", "rule 1: is: must be text, a finite number"),
    (RATING + "is = ''", "rule 1: is: text must not be blank or have white space around it"),
    (RATING + "not_in = ['a', ' b']", "rule 1: not_in.1: text must not be blank or have white"),
    (RATING + "is = " + "[" * 5000, "recursion"),
    (RATING + "in = []", "rule 1: in: "),
    (RATING + "in = 1", "rule 1: in: "),
    (RATING + "in = [1, true]", "rule 1: column 'Rating': in must have values of one kind"),
    (RATING + "not_in = [1, 'a']", "rule 1: column 'Rating': not_in must have values of one kind"),
    (RATING + "at_least = 'seven'", "rule 1: at_least: must be a finite number or a date"),
    (RATING + "at_least = '7'", "rule 1: at_least: must be a finite number or a date"),
    (RATING + "below = inf", "rule 1: below: must be a finite number or a date"),
    (RATING + "above = true", "rule 1: above: must be a finite number or a date"),
    (RATING + "missing = 1", "rule 1: missing: "),
    (RATING + "missing = true\nis = 1", "rule 1: column 'Rating': missing = true allows no other"),
    ("[[rules]]\ncolumn = 'Rating'\nis = 1", "rule 1: class: is missing"),
    ("[[rules]]\nclass = 'watch'\nall = []", "rule 1: all: "),
    ("[[rules]]\nclass = 'watch'\nall = 1", "rule 1: all: must be a list"),
    ("[[rules]]\nclass = 'watch'\nall = [1]", "rule 1: all.0: must be a table of keys"),
    (
        "[[rules]]\nclass = 'watch'\nall = [{ column = 'a', is = 1 }, { column = 'b', of = 1 }]",
        "rule 1: all.1: of: is unknown",
    ),
    ("[[rules]]\nclass = 'watch'\nis = 1", "rule 1: column: is missing"),
    ("[[rules]]\nclass = 'watch'\ncolumn = ''\nis = 1", "rule 1: column: "),
    (RATING.replace("Rating", "*") + "is = 1", "rule 1: column: '*' would stand for several"),
    (RATING.replace("Rating", "^R$") + "is = 1", "rule 1: column: '^R$' would stand for several"),
    (RATING + "is = 1\n" + RATING + "iz = 1", "rule 2: iz: "),
    (
        RATING + "is = 1\n" + RATING.replace("watch", "blocked") + "in = [1]",
        "rule 2 (class 'blocked') can never match: rule 1 (class 'watch') matches first",
    ),
    (
        RATING + "above = 1\n" + RATING + "above = 1\nbelow = 5",
        "rule 2 (class 'watch') can never match: rule 1 (class 'watch') matches first",
    ),
]


@pytest.mark.parametrize(("content", "error"), BAD_FILES)
def test_a_wrong_file_gets_one_clear_error(tmp_path: Path, content: str, error: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content)
    with pytest.raises(ParameterError) as refusal:
        read_rules(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert error in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("rule", "where"),
    [({5: 6}, ""), ({"class": "watch", "all": [{"column": "a", 5: 6}]}, "all.0: ")],
)
def test_a_key_that_is_no_text_is_refused(rule: dict[Any, Any], where: str) -> None:
    with pytest.raises(ParameterError, match=f"^rules: rule 1: {where}the key 5 must be text$"):
        rules_of([rule])


@pytest.mark.parametrize(("content", "error"), [(None, "not found"), (b"\xff", "utf-8")])
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, error: str
) -> None:
    path = tmp_path / "rules.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=error):
        read_rules(path)

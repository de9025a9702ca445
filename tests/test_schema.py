"""Claims about schemas: what is written is what is read, and each mistake is named by its key."""

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pv4fad import schema as module
from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.schema import SCHEMA
from pv4fad.rules import read_rules
from pv4fad.schema import MOST_CLASSES, MOST_SIDES, Schema, read_schema, schema_of

EXAMPLE = (module.__doc__ or "").split("public.\n")[1].split("\nThe *lead*")[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schema.toml"


def written(path: Path, *changes: tuple[str, str]) -> Schema:
    """The schema of the docstring, with texts replaced."""
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return read_schema(path)


def test_the_example_of_the_docstring_is_a_schema(path: Path) -> None:
    schema = written(path)
    assert schema.name == "claims"
    assert schema.side_names == ("patient", "doctor")
    assert schema.sides["doctor"].holder == "Hospital"
    assert schema.rows.numbers == ("Amount", "Days")
    assert schema.record.classes == ("ordinary", "watch", "blocked")


def test_the_schema_and_the_rules_of_the_docs_are_read(path: Path) -> None:
    page = Path(__file__).parents[1] / "docs" / "use" / "schema.md"
    shown, rules, of_a_bank = re.findall(
        r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
    path.write_text(shown)
    assert read_schema(path) == written(path)
    path.write_text(rules)
    read_rules(path).check_classes(written(path).record.classes)
    path.write_text(of_a_bank)
    more = read_schema(page.parents[2] / "examples" / "payments" / "schema.toml")
    read_rules(path).check_classes(more.record.classes)


def test_equal_schemas_and_no_others_have_one_digest(path: Path, tmp_path: Path) -> None:
    schema = written(path)
    assert written(path).digest == schema.digest
    again = Schema.model_validate_json(schema.model_dump_json())
    assert (again, again.digest) == (schema, schema.digest)
    changes = [
        ("watch", "look"),
        ("PatientId", "Patient"),
        ('"Amount", "Days"', '"Days", "Amount"'),
        ('classes = ["ordinary", "watch"', 'classes = ["watch", "ordinary"'),
        ('name = "claims"', 'name = "claims"\nformat = "payments"'),
    ]
    digests = {written(path, change).digest for change in changes}
    assert len(digests | {schema.digest}) == len(changes) + 1


def test_rules_survive_a_round_trip_with_one_digest(path: Path) -> None:
    digests = set()
    for asked in (
        "above = 2020-01-01",
        "is = 2020-01-01",
        'is = "2020-01-01"',
        "in = [2020-01-01]",
    ):
        rules = f'[[record.rules]]\nclass = "watch"\ncolumn = "Since"\n{asked}\n'
        schema = written(path, ('"blocked"]', '"blocked"]\n' + rules))
        again = Schema.model_validate_json(schema.model_dump_json())
        assert (again, again.digest) == (schema, schema.digest)
        digests.add(schema.digest)
    assert len(digests) == 4


def test_digests_stay_what_they_were(path: Path) -> None:
    """Those of finished runs, and of parties that have agreed on a schema."""
    rules = '[[record.rules]]\nclass = "watch"\ncolumn = "Since"\nin = ["2020-01-01", "x"]\n'
    assert written(path).digest.startswith("b11c4af60808")
    assert written(path, ('"blocked"]', '"blocked"]\n' + rules)).digest.startswith("63836e7cfc37")
    assert SCHEMA.digest.startswith("1393b5d2cc2d")


def test_kinds_group_classes(path: Path) -> None:
    schema = written(path, ('"blocked"]', '"blocked"]\nkinds = { flagged = ["blocked", "watch"] }'))
    assert schema.record.kind_names == ("flagged",)
    assert schema.record.kind_of("watch") == "flagged"
    assert schema.record.kind_of("ordinary") == "ordinary"
    assert schema.atoms(None) == schema.record.classes
    assert schema.atoms("class") == ("ordinary", "flagged")
    assert schema.atoms("ordinary") == ("flagged",)
    assert schema.atom_of_class("class") == (0, 1, 1)
    assert schema.atom_of_class("ordinary") == (-1, 0, 0)


RULE = '"blocked"]\n[[record.rules]]\ncolumn = "Rating"\nis = 1\nclass = '
WRONG = [
    (('name = "claims"', ""), ": name: is missing"),
    (('name = "claims"', 'name = "our claims"'), ": name: "),
    (("[rows]", "[row]"), ": row"),
    (("[record]", "[records]"), ": record: is missing"),
    (("[rows]", "extra = 1\n[rows]"), ": extra: "),
    (('id = "ClaimId"', ""), ": rows: id: is missing"),
    (('id = "ClaimId"', "id = 3"), ": rows: id: "),
    (('id = "ClaimId"', 'id = ""'), ": rows: id: "),
    (('id = "ClaimId"', 'id = "*"'), ": rows: id: '*' would stand for several columns"),
    (('"Amount", "Days"', '"^Am.*$"'), ": rows: numbers.0: '^Am.*$' would stand for several"),
    (("PatientId", "^.*$"), ": sides.patient: id: '^.*$' would stand for several columns"),
    (('id = "Person"', 'id = "*"'), ": record: id: '*' would stand for several columns"),
    (('id = "ClaimId"', 'id = "Submitted"'), ": rows: id, time and label must be different"),
    (('"Amount", "Days"', '"Amount", "Amount"'), ": rows: a column is listed twice in numbers"),
    (('"Amount", "Days"', '"Amount", "Kind"'), ": rows: a column is listed twice in numbers"),
    (('"Amount", "Days"', '"Fraud"'), "rows: 'Fraud' is the id, time or label, not a feature"),
    (("numbers = [", 'features = "f g"\nnumbers = ['), "rows: features: "),
    (("numbers = [", "number = ["), "rows: number: "),
    (("numbers = [", 'event = "Kind"\nnumbers = ['), "rows.event: 'Kind' is used for something"),
    (("numbers = [", 'event = "DoctorId"\nnumbers = ['), "rows.event: 'DoctorId' is used for"),
    (("numbers = [", "history = 7\nnumbers = ["), "rows: history: "),
    (("numbers = [", 'history = "yes"\nnumbers = ['), "rows: history: must be true or false"),
    (("numbers = [", "numbers = " + "[" * 5000), "recursion"),
    (("[sides.doctor]", "[sides.patient]"), "patient"),
    (("[sides.doctor]", '[sides."a doctor"]'), "sides.a doctor"),
    (("DoctorId", "PatientId"), "sides: each side needs an id column of its own"),
    (("DoctorId", "Amount"), "sides: 'Amount' is used for something else in rows"),
    (('id = "DoctorId"', ""), "sides.doctor: id: is missing"),
    (('id = "DoctorId"', 'id = "DoctorId"\nleg = "last"'), "sides.doctor.leg: needs rows.event"),
    (('id = "DoctorId"', 'id = "DoctorId"\nleg = "second"'), "sides.doctor: leg: "),
    (('id = "DoctorId"', 'id = "DoctorId"\nnamespace = "d"'), "namespaces: give sides.*.namespace"),
    (('holder = "Hospital"', 'holder = "Days"'), "sides.patient.holder: 'Days' is used for"),
    (('holder = "Hospital"', 'holder = "DoctorId"'), "sides.patient.holder: 'DoctorId' is used"),
    (('id = "Person"', 'id = "Class"'), "record: id, holder, namespace and column must be"),
    (
        ("numbers = [", 'event = "Hospital"\nnumbers = ['),
        "holder: 'Hospital' is used for something",
    ),
    (('id = "Person"', 'id = "Person"\nnamespace = "Role"'), "namespaces: give sides.*.namespace"),
    (('"ordinary", "watch", "blocked"', '"ordinary"'), "record: classes: "),
    (('"watch", "blocked"', '"watch", "watch"'), "record.classes: each class must have a differ"),
    (('"watch", "blocked"', '"watch", "a:b"'), "record: classes.2: "),
    (('"blocked"]', '"blocked"]\nkinds = { k = ["watch"] }'), "record.kinds must list each class"),
    (
        ('"blocked"]', '"blocked"]\nkinds = { k = ["watch", "blocked"], l = ["watch"] }'),
        "record.kinds must list each class but 'ordinary' exactly once",
    ),
    (
        ('"blocked"]', '"blocked"]\nkinds = { ordinary = ["watch", "blocked"] }'),
        "record.kinds: no kind is empty or called 'ordinary'",
    ),
    (('"blocked"]', RULE + '"wach"'), "rule 1 (class 'wach'): there is no such class"),
    (('"blocked"]', RULE + '"watch"\nof = 1'), "record.rules: rule 1: of: "),
    (("[record]", "[record"), "schema.toml: "),
]


@pytest.mark.parametrize(("change", "error"), WRONG)
def test_a_wrong_schema_gets_one_clear_error(
    path: Path, change: tuple[str, str], error: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        written(path, change)
    assert str(refusal.value).startswith(f"{path}: ")
    assert error in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(("change", "error"), WRONG)
def test_a_wrong_schema_in_python_gets_the_same_error(
    path: Path, change: tuple[str, str], error: str
) -> None:
    with suppress(ParameterError):
        written(path, change)
    try:
        given = tomllib.loads(path.read_text())
    except (ValueError, RecursionError):
        return  # what Python cannot say
    for schema in (lambda: Schema(**given), lambda: schema_of(given, "here")):
        with pytest.raises(ParameterError) as refusal:
            schema()
        said = str(refusal.value).removeprefix("here: ")
        assert error in f": {said}"
        with pytest.raises(ParameterError) as same:
            read_schema(path)
        assert str(same.value) == f"{path}: {said}"


def content(n_sides: int, n_classes: int) -> dict[str, Any]:
    return {
        "name": "many",
        "rows": {"id": "Id", "time": "Time"},
        "sides": {f"side{k}": {"id": f"Id{k}"} for k in range(n_sides)},
        "record": {"classes": [f"class {k}" for k in range(n_classes)]},
    }


def test_there_are_bounds_on_sides_and_classes() -> None:
    assert (MOST_SIDES, MOST_CLASSES) == (8, 32)  # as the docs say
    assert schema_of(content(MOST_SIDES, MOST_CLASSES)).n_sides == MOST_SIDES
    for wrong, said in [
        ((0, 2), "sides: needs at least 1, and has 0"),
        ((MOST_SIDES + 1, 2), f"sides: takes at most {MOST_SIDES}$"),
        ((1, 1), "record: classes: needs at least 2, and has 1"),
        ((1, MOST_CLASSES + 1), f"record: classes: takes at most {MOST_CLASSES}$"),
    ]:
        with pytest.raises(ParameterError, match=f"^schema: {said}"):
            schema_of(content(*wrong))


def test_a_namespace_is_for_all_sides_and_records_or_for_none() -> None:
    spaced = content(2, 2)
    spaced["record"]["namespace"] = "Kind"
    spaced["sides"]["side0"]["namespace"] = "a"
    with pytest.raises(ParameterError, match="namespaces: give"):
        schema_of(spaced)
    spaced["sides"]["side1"]["namespace"] = "b"
    assert schema_of(spaced).n_sides == 2


def test_rows_need_a_feature() -> None:
    wrong = content(1, 2)
    wrong["rows"]["history"] = False
    with pytest.raises(ParameterError, match="schema: rows: there is no feature"):
        schema_of(wrong)


def test_an_absent_file_is_named(path: Path) -> None:
    with pytest.raises(DataError, match=r"schema\.toml: not found"):
        read_schema(path)


@pytest.mark.parametrize("part", [{"rows": 1}, {"record": [1]}, {"sides": {"a": 1}}])
def test_a_part_that_is_no_table_is_refused(part: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="must be a table of keys and values"):
        schema_of(content(1, 2) | part)


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"rows": {5: 6}}, "rows: the key 5"),
        ({"record": {5: 6}}, "record: the key 5"),
        ({"words": {5: 6}}, "words: the key 5"),
        ({"sides": {"a": {5: 6}}}, "sides.a: the key 5"),
        ({"sides": {5: {"id": "a"}}}, r"sides.5.\[key\]:"),
        ({"record": {"classes": ["a", "b"], "rules": [{5: 6}]}}, "record.rules: rule 1: the key 5"),
        ({5: 6}, "the key 5"),
    ],
)
def test_a_key_that_is_no_text_is_refused(part: dict[Any, Any], where: str) -> None:
    with pytest.raises(ParameterError, match=f"^schema: {where} must be text"):
        schema_of(content(1, 2) | part)

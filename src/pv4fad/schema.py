"""What the system needs to know about data: declared once, as TOML or in Python, and public.

    name = "claims"
    [rows]                          # the lead's table: one row for each event to be judged
    id = "ClaimId"
    time = "Submitted"
    label = "Fraud"
    numbers = ["Amount", "Days"]
    categories = ["Kind"]
    [sides.patient]                 # who is asked about, and who keeps the record
    holder = "Hospital"
    id = "PatientId"
    [sides.doctor]
    holder = "Hospital"
    id = "DoctorId"
    [record]                        # what a holder's record can say; the first class is ordinary
    id = "Person"
    classes = ["ordinary", "watch", "blocked"]
    [words]                         # what outputs call these things; by default lead, holder,
    lead = "insurer"                # row, record
    holder = "hospital"
    row = "claim"
    record = "person"

The *lead* has the rows: the payment network, the insurer.  *Holders* keep records: banks,
hospitals.  All parties of a run have the same schema: its digest is in the run's parameters.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, model_validator

from pv4fad import validated
from pv4fad.errors import DataError, ParameterError
from pv4fad.rules import Rule, Rules, rules_of
from pv4fad.validated import ValidatedModel, model_of
from pv4fad.words import Words

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
ClassName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,63}$")]
ColumnName = Annotated[validated.ColumnName, Field(max_length=128)]
Absent = Literal["class", "ordinary"]

MOST_CLASSES = 32
MOST_SIDES = 8
KEY_SEPARATOR = "|"
"""Between the name of a holder, which never has it, and an id."""


class RowsSchema(ValidatedModel):
    """The lead's table."""

    id: ColumnName
    """Unique in a table."""
    time: ColumnName
    """When the row was; only earlier rows count as its past."""
    label: ColumnName = "Label"
    """1 for an anomaly, 0 otherwise; only training needs it."""
    event: ColumnName | None = None
    """Rows with the same value belong to one event, such as the legs of a payment; by default each
    row is an event of its own."""
    numbers: tuple[ColumnName, ...] = ()
    """Features that are numbers; a value may be missing."""
    categories: tuple[ColumnName, ...] = ()
    """Features that are one of some values; a value may be missing."""
    history: StrictBool = True
    """Add features that count what happened before: rows, recency, first dealings."""
    features: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """A Python function `package.module:name` that computes the features, from the rows with the
    columns that the schema names.  Only the lead ever imports it.  Of a row it must look at nothing
    later: nobody checks that."""


class SideSchema(ValidatedModel):
    """One account, person or thing that a row is about."""

    id: ColumnName
    """The column with the id of the record that is asked about."""
    holder: ColumnName | None = None
    """The column that names the holder of the record; where it is empty every holder is asked.
    By default every holder is always asked."""
    leg: Literal["first", "last"] | None = None
    """Of which row of the event the holder is taken; by default each row has its own."""
    namespace: Name | None = None
    """Ids of different namespaces never mean the same record; by default all sides share one."""


class RecordSchema(ValidatedModel):
    """A holder's table: one row for each record."""

    id: ColumnName = "Id"
    """The column with the id by which sides find the record."""
    holder: ColumnName | None = None
    """The column with the name that rows call the holder by; by default the party's own name."""
    namespace: ColumnName | None = None
    """The column that says which namespace an id is of; needed if sides have namespaces."""
    classes: tuple[ClassName, ...] = Field(min_length=2, max_length=MOST_CLASSES)
    """What a record can be; every record has one class.  The first is the ordinary one."""
    kinds: dict[ClassName, tuple[ClassName, ...]] = Field(default_factory=dict)
    """Classes that are counted and asked about together, by name; by default each on its own."""
    column: ColumnName = "Class"
    """The column with the class, where there are no rules."""
    rules: tuple[Rule, ...] = ()
    """How columns decide the class, unless a holder has rules of its own."""

    @model_validator(mode="after")
    def _classes_fit(self) -> RecordSchema:
        if len(set(self.classes)) < len(self.classes):
            raise ParameterError("record.classes: each class must have a different name")
        ordinary, *others = self.classes
        columns = [self.id, self.holder, self.namespace, None if self.rules else self.column]
        named = [name for name in columns if name is not None]
        if len(set(named)) < len(named):
            raise ParameterError("record: id, holder, namespace and column must be different")
        Rules(rules=self.rules).check_classes(self.classes)
        if self.kinds:
            listed = [name for classes in self.kinds.values() for name in classes]
            if sorted(listed) != sorted(others):
                raise ParameterError(
                    f"record.kinds must list each class but {ordinary!r} exactly once"
                )
            if ordinary in self.kinds or not all(self.kinds.values()):
                raise ParameterError(f"record.kinds: no kind is empty or called {ordinary!r}")
        return self

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The kinds in order, without the ordinary one."""
        return tuple(self.kinds) or self.classes[1:]

    def kind_of(self, name: str) -> str:
        """The kind of a class; the ordinary class is its own."""
        return next((kind for kind, classes in self.kinds.items() if name in classes), name)


class Schema(ValidatedModel):
    """Of the data of all parties.

    >>> schema = pv4fad.Schema(
    ...     name="claims",
    ...     rows={"id": "ClaimId", "time": "Submitted", "label": "Fraud", "numbers": ["Amount"]},
    ...     sides={"patient": {"holder": "Hospital", "id": "PatientId"}},
    ...     record={"id": "Person", "classes": ["ordinary", "watch", "blocked"]},
    ... )
    >>> schema.side_names
    ('patient',)
    """

    name: Name
    """What the data is called."""
    rows: RowsSchema
    """The lead's table."""
    sides: dict[Name, SideSchema] = Field(min_length=1, max_length=MOST_SIDES)
    """Whom or what a row is about, by name."""
    record: RecordSchema
    """A holder's table."""
    format: Literal["table", "payments"] = "table"
    """How files are read: plain tables, or the columns of the payments challenge."""
    words: Words = Words()
    """What outputs call the parties and tables."""

    @model_validator(mode="before")
    @classmethod
    def _errors_name_the_part(cls, content: Any) -> Any:
        return _parts(content) if isinstance(content, Mapping) else content

    @model_validator(mode="after")
    def _parts_fit(self) -> Schema:
        rows = self.rows
        features = (*rows.numbers, *rows.categories)
        special = [rows.id, rows.time, rows.label]
        if len(set(features)) < len(features):
            raise ParameterError("rows: a column is listed twice in numbers and categories")
        if wrong := [name for name in features if name in special]:
            raise ParameterError(f"rows: {wrong[0]!r} is the id, time or label, not a feature")
        if len(set(special)) < len(special):
            raise ParameterError("rows: id, time and label must be different columns")
        if rows.features is None and not features and not rows.history:
            raise ParameterError("rows: there is no feature; give numbers, categories or history")
        ids = [side.id for side in self.sides.values()]
        if len(set(ids)) < len(ids):
            raise ParameterError("sides: each side needs an id column of its own")
        if taken := [name for name in ids if name in (*special, *features)]:
            raise ParameterError(f"sides: {taken[0]!r} is used for something else in rows")
        if rows.event in (*special, *features, *ids):
            raise ParameterError(f"rows.event: {rows.event!r} is used for something else")
        for name, side in self.sides.items():
            others = (*special, *rows.numbers, *ids, rows.event)
            if side.holder is not None and side.holder in others:
                raise ParameterError(
                    f"sides.{name}.holder: {side.holder!r} is used for something else"
                )
            if side.leg is not None and (rows.event is None or side.holder is None):
                raise ParameterError(f"sides.{name}.leg: needs rows.event and sides.{name}.holder")
        spaces = {side.namespace is not None for side in self.sides.values()}
        if len(spaces) > 1 or (True in spaces) != (self.record.namespace is not None):
            raise ParameterError(
                "namespaces: give sides.*.namespace for every side and record.namespace, or none"
            )
        return self

    @property
    def side_names(self) -> tuple[str, ...]:
        return tuple(self.sides)

    @property
    def n_sides(self) -> int:
        return len(self.sides)

    @cached_property
    def digest(self) -> str:
        """What parties compare; equal schemas only have the same, whatever their words."""
        content = self.model_dump_json(exclude={"words"})
        return hashlib.sha256(b"pv4fad schema 1\n" + content.encode()).hexdigest()

    def atoms(self, absent: Absent | None) -> tuple[str, ...]:
        """What holders provide shares for: kinds for a model that counts them, else classes.

        Where an absent record means an ordinary one, none is provided for ordinary.
        """
        ordinary = self.record.classes[0]
        if absent is None:
            return self.record.classes
        return ((ordinary,) if absent == "class" else ()) + self.record.kind_names

    def atom_of_class(self, absent: Absent | None) -> tuple[int, ...]:
        """The number among `atoms` of each class; -1 where there is none."""
        atoms = self.atoms(absent)
        names = [
            name if absent is None else self.record.kind_of(name) for name in self.record.classes
        ]
        return tuple(atoms.index(name) if name in atoms else -1 for name in names)


def read_schema(path: Path) -> Schema:
    """A schema from a TOML file; errors name the file and the key."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: not found") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: {error}") from None
    return schema_of(content, str(path))


def schema_of(content: Mapping[str, Any], where: str = "schema") -> Schema:
    """A schema from the content of a TOML file; `where` it is from, for errors."""
    return model_of(Schema, content, where)


def _parts(content: Mapping[str, Any]) -> dict[str, Any]:
    """Each part made for itself, so that its errors name the key."""
    parts = dict(content)
    record = parts.get("record")
    if isinstance(record, Mapping) and "rules" in record:
        parts["record"] = {**record, "rules": rules_of(record["rules"], "record.rules").rules}
    for key, part in (("rows", RowsSchema), ("record", RecordSchema), ("words", Words)):
        if key in parts:
            parts[key] = model_of(part, parts[key], key)
    if isinstance(parts.get("sides"), Mapping):
        parts["sides"] = {
            name: model_of(SideSchema, side, f"sides.{name}")
            for name, side in parts["sides"].items()
        }
    return parts

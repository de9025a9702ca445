"""A holder's own rules: how the columns of its table decide the class of a record.

    [[rules]]
    class = "blocked"
    column = "Status"
    in = ["frozen", "closed"]

    [[rules]]
    class = "watch"
    all = [{ column = "Rating", at_least = 7, below = 9 }, { column = "Country", missing = true }]

The first rule that matches decides; a record that no rule matches is of the first class of the
schema, the ordinary one.  A missing value satisfies `missing = true` and nothing else.

Rules stay with their holder: they are never sent, and only the class of a record enters a run.  A
class depends on the record alone; the privacy claim rests on that.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from pv4fad.errors import DataError, ParameterError
from pv4fad.validated import ValidatedModel


def _value(given: object) -> object:
    if given is None or isinstance(given, (bool, str, date)) or _is_number(given):
        return given
    raise ValueError("must be text, a finite number, true, false or a date")


def _ordered(given: object) -> object:
    if isinstance(given, str):
        moment = moment_of(given)  # JSON has no dates
        if moment is not None:
            return moment
    if given is None or isinstance(given, date) or _is_number(given):
        return given
    raise ValueError("must be a finite number or a date")


def _is_number(given: object) -> bool:
    if isinstance(given, float):
        return math.isfinite(given)
    return isinstance(given, int) and not isinstance(given, bool) and -(2**63) <= given < 2**63


def moment_of(text: str) -> date | None:
    """A date, or a date with a time, as ISO 8601 writes them."""
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None


# The validators have decided; Any keeps pydantic from converting 1 to true or text to a date.
Value = Annotated[Any, BeforeValidator(_value)]
Ordered = Annotated[Any, BeforeValidator(_ordered)]


class Condition(ValidatedModel):
    """What must hold of one column; of several keys all must hold."""

    model_config = ConfigDict(populate_by_name=True)

    column: str = Field(min_length=1)
    is_: Value = Field(default=None, alias="is")
    in_: tuple[Value, ...] | None = Field(default=None, alias="in", min_length=1)
    not_in: tuple[Value, ...] | None = Field(default=None, min_length=1)
    at_least: Ordered = None
    above: Ordered = None
    at_most: Ordered = None
    below: Ordered = None
    missing: StrictBool | None = None

    @model_validator(mode="after")
    def _something_is_asked(self) -> Condition:
        asked = self.asked
        if not asked:
            raise ParameterError(
                f"column {self.column!r}: give a condition such as is, in or at_least"
            )
        if self.missing and len(asked) > 1:
            raise ParameterError(
                f"column {self.column!r}: missing = true allows no other condition"
            )
        return self

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked of the column, by key."""
        names = [name for name in type(self).model_fields if name != "column"]
        asked = {name.rstrip("_"): getattr(self, name) for name in names}
        return {key: value for key, value in asked.items() if value is not None}


class Rule(ValidatedModel):
    """A class, and the conditions under which a record has it."""

    model_config = ConfigDict(populate_by_name=True)

    class_: str = Field(alias="class", min_length=1)
    all: tuple[Condition, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_condition_needs_no_list(cls, content: Any) -> Any:
        if not isinstance(content, dict) or "all" in content:
            return content
        name = "class" if "class" in content else "class_"
        rest = {key: value for key, value in content.items() if key != name}
        return {key: content[key] for key in (name,) if key in content} | {"all": [rest]}

    def parts(self) -> frozenset[tuple[str, str, frozenset[tuple[bool, Any]]]]:
        """Each thing that must hold, in a form that can be compared."""
        return frozenset(
            (condition.column, "in" if key == "is" else key, _values(value))
            for condition in self.all
            for key, value in condition.asked.items()
        )


def _values(value: Any) -> frozenset[tuple[bool, Any]]:
    values = value if isinstance(value, tuple) else (value,)
    return frozenset((isinstance(one, bool), one) for one in values)  # True == 1 in Python


class Rules(ValidatedModel):
    """In order: the first that matches decides."""

    rules: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _every_rule_can_match(self) -> Rules:
        parts = [rule.parts() for rule in self.rules]
        for later, needed in enumerate(parts):
            for earlier, enough in enumerate(parts[:later]):
                if enough <= needed:
                    raise ParameterError(
                        f"{self.called(later)} can never match: {self.called(earlier)} matches "
                        "first, because all its conditions are in it"
                    )
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Each column that the rules read, once."""
        return tuple(dict.fromkeys(part.column for rule in self.rules for part in rule.all))

    def called(self, position: int) -> str:
        """What errors call a rule; they are counted from 1."""
        return f"rule {position + 1} (class {self.rules[position].class_!r})"

    def check_classes(self, classes: Sequence[str]) -> None:
        """Refuse a rule whose class is not one of these."""
        for position, rule in enumerate(self.rules):
            if rule.class_ not in classes:
                raise ParameterError(
                    f"{self.called(position)}: there is no such class; "
                    f"the classes are: {', '.join(classes)}"
                )

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a rule about a column that is not one of these."""
        for position, rule in enumerate(self.rules):
            for condition in rule.all:
                if condition.column not in columns:
                    raise DataError(
                        f"{self.called(position)}: there is no column {condition.column!r}; "
                        f"the columns are: {', '.join(columns)}"
                    )


def read_rules(path: Path) -> Rules:
    """Rules from a TOML file, or a JSON file of the same form; errors name the file and rule."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise DataError(f"{path}: not found") from None
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path}: {error}") from None
    if not isinstance(content, Mapping) or set(content) != {"rules"}:
        raise ParameterError(f"{path}: must have a list called rules, and nothing else")
    return rules_of(content["rules"], str(path))


def rules_of(content: object, where: str = "rules") -> Rules:
    """Rules from the content of a file; `where` they are from, for errors."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise ParameterError(f"{where}: rules must be a list; in TOML write [[rules]]")
    try:
        return Rules(rules=tuple(_rule(one, number) for number, one in enumerate(content, 1)))
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from None


def _rule(content: object, number: int) -> Rule:
    if isinstance(content, Rule):
        return content
    if not isinstance(content, Mapping):
        raise ParameterError(f"rule {number}: must be a table of keys and values")
    try:
        return Rule(**content)
    except ParameterError as error:
        raise ParameterError(f"rule {number}: {error}") from None

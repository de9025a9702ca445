"""Rules in order: their checks, their application to a table, and the files they are in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ConfigDict, Field, model_validator

from pv4fad.errors import DataError, ParameterError
from pv4fad.rules.conditions import Condition
from pv4fad.rules.matching import Cells
from pv4fad.validated import ValidatedModel, model_of


class Rule(ValidatedModel):
    """A class, and the conditions under which a record has it."""

    model_config = ConfigDict(populate_by_name=True)

    class_: str = Field(alias="class", min_length=1)
    """Which class a record has that matches."""
    all: tuple[Condition, ...] = Field(min_length=1)
    """What must hold; a single condition can stand in the rule itself, without `all`."""

    @model_validator(mode="before")
    @classmethod
    def _one_condition_needs_no_list(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        if "all" in content:
            given = content["all"]
            if not isinstance(given, (list, tuple)):
                return content
            made = [model_of(Condition, one, f"all.{n}") for n, one in enumerate(given)]
            return content | {"all": made}
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

    def classes_of(self, frame: pl.DataFrame, classes: Sequence[str]) -> pl.Series:
        """The class of each row, as Enum; the first of the classes where no rule matches."""
        self.check_classes(classes)
        self.check_columns(frame.columns)
        cells, decision = Cells(frame), pl.repeat(classes[0], frame.height)
        for position, rule in reversed(list(enumerate(self.rules))):
            try:
                matches = pl.all_horizontal(cells.holds(part) for part in rule.all)
            except DataError as error:
                raise DataError(f"{self.called(position)}: {error}") from None
            decision = pl.when(matches).then(pl.lit(rule.class_)).otherwise(decision)
        return cells.frame().select(decision.cast(pl.Enum(classes)).alias("Class")).to_series()

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
    except (OSError, ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: {error}") from None
    if not isinstance(content, Mapping) or set(content) != {"rules"}:
        raise ParameterError(f"{path}: must have a list called rules, and nothing else")
    return rules_of(content["rules"], str(path))


def rules_of(content: object, where: str = "rules") -> Rules:
    """Rules from the content of a file; `where` they are from, for errors."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise ParameterError(f"{where}: rules must be a list; in TOML write [[rules]]")
    try:
        rules = [model_of(Rule, one, f"rule {number}") for number, one in enumerate(content, 1)]
        return Rules(rules=tuple(rules))
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from None

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

from datetime import date, datetime
from typing import Any

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from pv4fad.errors import ParameterError
from pv4fad.validated import ValidatedModel

Value = StrictBool | StrictInt | StrictFloat | datetime | date | StrictStr
Ordered = StrictInt | StrictFloat | datetime | date


class Condition(ValidatedModel):
    """What must hold of one column; of several keys all must hold."""

    model_config = ConfigDict(populate_by_name=True)

    column: str = Field(min_length=1)
    is_: Value | None = Field(default=None, alias="is")
    in_: tuple[Value, ...] | None = Field(default=None, alias="in", min_length=1)
    not_in: tuple[Value, ...] | None = Field(default=None, min_length=1)
    at_least: Ordered | None = None
    above: Ordered | None = None
    at_most: Ordered | None = None
    below: Ordered | None = None
    missing: StrictBool | None = None

    @model_validator(mode="after")
    def _something_is_asked(self) -> Condition:
        asked = [
            key
            for key in type(self).model_fields
            if key != "column" and getattr(self, key) is not None
        ]
        if not asked:
            raise ParameterError(
                f"column {self.column!r}: give a condition such as is, in or at_least"
            )
        if self.missing and len(asked) > 1:
            raise ParameterError(
                f"column {self.column!r}: missing = true allows no other condition"
            )
        return self


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


class Rules(ValidatedModel):
    """In order: the first that matches decides."""

    rules: tuple[Rule, ...] = ()

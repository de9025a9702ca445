"""What a rule asks of one column."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    WrapValidator,
    model_validator,
)

from pv4fad.errors import ParameterError
from pv4fad.validated import ColumnName, ValidatedModel

_DATE = "date"


def _value(given: object) -> object:
    if isinstance(given, dict) and list(given) == [_DATE]:
        text = given[_DATE]
        moment = moment_of(text) if isinstance(text, str) else None
        if moment is None:
            raise ValueError(f"{_DATE} must be text such as 2022-01-05")
        return moment
    if isinstance(given, str) and (not given or given != given.strip()):
        raise ValueError("text must not be blank or have white space around it: no value has")
    if given is None or isinstance(given, (bool, str, date)) or _is_number(given):
        return given
    raise ValueError("must be text, a finite number, true, false or a date")


def _in_json(value: object) -> object:
    """What `_value` takes for this value again; JSON has no dates, and text may look like one."""
    return {_DATE: value.isoformat()} if isinstance(value, date) else value


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


def kind_of(value: object) -> str:
    """Values of one kind can be compared: text, number, truth or date."""
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case date():
            return "date"
    return "text"


# Wrapped, so that pydantic does not convert 1 to true or text to a date.
_AsGiven = WrapValidator(lambda given, convert: _value(given))
_InOrder = WrapValidator(lambda given, convert: _ordered(given))
_Tagged = PlainSerializer(_in_json, when_used="json-unless-none")
Value = Annotated[bool | int | float | datetime | date | str | None, _AsGiven, _Tagged]
Ordered = Annotated[int | float | datetime | date | None, _InOrder]


class Condition(ValidatedModel):
    """What must hold of one column; of several keys all must hold."""

    model_config = ConfigDict(populate_by_name=True)

    column: ColumnName
    """Of the holder's table."""
    is_: Value = Field(default=None, alias="is")
    """It has this value."""
    in_: tuple[Value, ...] | None = Field(default=None, alias="in", min_length=1)
    """It has one of these values."""
    not_in: tuple[Value, ...] | None = Field(default=None, min_length=1)
    """It has a value, and none of these."""
    at_least: Ordered = None
    """It is this number or date, or above it."""
    above: Ordered = None
    """It is above this number or date."""
    at_most: Ordered = None
    """It is this number or date, or below it."""
    below: Ordered = None
    """It is below this number or date."""
    missing: StrictBool | None = None
    """true: it has no value; false: it has one."""

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
        for key in ("in", "not_in"):
            values = asked.get(key, ())
            if None in values or len({kind_of(value) for value in values}) > 1:
                raise ParameterError(
                    f"column {self.column!r}: {key} must have values of one kind: text, numbers, "
                    "dates, or true and false"
                )
        return self

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked of the column, by key."""
        names = [name for name in type(self).model_fields if name != "column"]
        asked = {name.rstrip("_"): getattr(self, name) for name in names}
        return {key: value for key, value in asked.items() if value is not None}

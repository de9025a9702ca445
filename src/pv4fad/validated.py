"""Configuration that people write: checked when made, immutable, with errors they can act on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from pv4fad.errors import ParameterError

_WHOLE, _NUMBER, _TEXT = "must be a whole number", "must be a number", "must be text"
_LIST, _TABLE = "must be a list", "must be a table of keys and values"
_SENTENCES = {  # by pydantic's kind of error
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": _TEXT,
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must have the form {pattern}",
    "too_short": "needs at least {min_length}, and has {actual_length}",
    "too_long": "takes at most {max_length}",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _TABLE,
    "model_type": _TABLE,
}


class ValidatedModel(BaseModel):
    """A frozen model that refuses unknown fields and raises ParameterError instead of pydantic's.

    A field marked `Field(...)` has its bounds there; rules between fields are validators that
    raise ParameterError themselves.
    """

    # Docstrings below fields are their descriptions: docs/operate/configuration.md is made of them.
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ParameterError(problems_text(error)) from None


def problems_text(error: ValidationError) -> str:
    """Each entry that is wrong, and what it has to be."""
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(
        ": ".join(part for part in (_where(problem), _said(problem)) if part)
        for problem in problems
    )


def _where(problem: ErrorDetails) -> str:
    """Names may be those of a file that somebody else has made, and end on a terminal."""
    names = map(str, problem["loc"])
    return ".".join(name if name.isprintable() else ascii(name) for name in names)


def _said(problem: ErrorDetails) -> str:
    sentence = _SENTENCES.get(problem["type"])
    if sentence is None:
        return problem["msg"].removeprefix("Value error, ")
    return sentence.format(**problem.get("ctx", {}))

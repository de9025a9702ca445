"""Configuration that people write: checked when made, immutable, with errors they can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
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


Model = TypeVar("Model", bound=ValidatedModel)


def model_of(model: type[Model], content: object, where: str) -> Model:
    """What a table of keys and values says; one that is made already stays as it is.  `where` it
    is from, for errors."""
    if isinstance(content, model):
        return content
    if not isinstance(content, Mapping):
        raise ParameterError(f"{where}: must be a table of keys and values")
    if wrong := [key for key in content if not isinstance(key, str)]:
        raise ParameterError(f"{where}: the key {wrong[0]!r} must be text")
    try:
        return model(**content)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from None


def _one_column(name: str) -> str:
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise ValueError(
            f"{name!r} would stand for several columns: polars takes it for a pattern; rename it"
        )
    return name


ColumnName = Annotated[str, Field(min_length=1), AfterValidator(_one_column)]


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

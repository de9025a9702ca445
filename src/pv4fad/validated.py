"""Configuration that people write: checked when made, immutable, with errors they can act on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pv4fad.errors import ParameterError


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
            problems = "; ".join(
                f"{'.'.join(str(part) for part in problem['loc'])}: "
                f"{problem['msg'].removeprefix('Value error, ')}"
                for problem in error.errors(include_url=False, include_input=False)
            )
            raise ParameterError(problems) from None

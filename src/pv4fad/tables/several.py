"""Several files or tables that are read one after the other, and refused together.

    several = Several()
    for path in paths:
        with several.reading():
            tables.append(read(path))
    several.refuse()

Every one of them is read even if one is bad, so that the error names all problems.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pv4fad.errors import DataError, ParameterError


class Several:
    """What is wrong with what was read so far."""

    def __init__(self) -> None:
        self._errors: list[DataError | ParameterError] = []

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Note what is wrong, and go on."""
        try:
            yield
        except (DataError, ParameterError) as error:
            self._errors.append(error)

    def refuse(self) -> None:
        """Raise one error with each line once, if anything is wrong."""
        if self._errors:
            lines = [line for error in self._errors for line in str(error).splitlines()]
            raise type(self._errors[0])("\n".join(dict.fromkeys(lines)))

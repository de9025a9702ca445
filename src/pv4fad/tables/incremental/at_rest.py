"""State as arrays with names: parts of a state are joined by names with dots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def joined(parts: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:
    """The arrays of all parts."""
    return {
        f"{name}.{inner}": array for name, part in parts.items() for inner, array in part.items()
    }


def part_of(arrays: Arrays, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of one part, by the names that it gave them."""
    prefix = name + "."
    return {
        key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)
    }


def of_text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def to_text(array: NDArray[Any]) -> str:
    return array.tobytes().decode()

"""Feature domains: which values a feature can have, declared without looking at the data.

A domain turns a column into *codes* 0 … n_codes−1, and groups the codes into the branches of a
random test.  Every value has a code: numbers outside the declared range count as its nearer end,
and undeclared categories share one code of their own.

`Numeric` and `Categorical` are declared by the user; they are all that a private forest knows about
a feature before it adds noise.  `Ranked` is measured from the data, for forests without ε.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError

GRID = 1024  # equal cells of a numeric range: cuts lie between them
RANKS = 256


class Domain(Protocol):
    """What a forest needs to know of a feature."""

    @property
    def n_codes(self) -> int:
        """How many codes `encode` can give."""

    @property
    def n_groups(self) -> int:
        """Into how many branches a test can split at most; 1 if there is nothing to ask."""

    def encode(self, column: NDArray[Any]) -> NDArray[np.intp]:
        """The code of every value."""

    def draw_branches(self, n_branches: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """A random test: the branch, 0 … n_branches−1, of every code."""


@dataclass(frozen=True)
class Numeric:
    """Numbers from `low` to `high`; what lies outside counts as the nearer end."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.high - self.low) and self.low < self.high):
            raise ParameterError(
                f"a numeric domain needs finite low < high, not {self.low} and {self.high}"
            )

    @property
    def n_codes(self) -> int:
        return GRID

    @property
    def n_groups(self) -> int:
        return GRID

    def encode(self, column: NDArray[Any]) -> NDArray[np.intp]:
        numbers = np.clip(_numbers(column), self.low, self.high)
        share = (numbers - self.low) / (self.high - self.low)
        return np.minimum(share * GRID, GRID - 1).astype(np.intp)

    def draw_branches(self, n_branches: int, rng: np.random.Generator) -> NDArray[np.intp]:
        return _cut(GRID, n_branches, rng)


@dataclass(frozen=True)
class Categorical:
    """One of `values`, all text or all numbers; any other value counts as 'undeclared'."""

    values: tuple[Any, ...]

    def __init__(self, values: Iterable[Any]) -> None:
        object.__setattr__(self, "values", tuple(values))
        if not self.values or len(set(self.values)) != len(self.values):
            raise ParameterError("a categorical domain needs at least one value, each of them once")
        if not self._is_text and any(isinstance(value, str) for value in self.values):
            raise ParameterError("the values of a categorical domain are all text or all numbers")

    @property
    def _is_text(self) -> bool:
        return all(isinstance(value, str) for value in self.values)

    @property
    def n_codes(self) -> int:
        return len(self.values) + 1

    @property
    def n_groups(self) -> int:
        return len(self.values)

    def encode(self, column: NDArray[Any]) -> NDArray[np.intp]:
        cells: NDArray[Any] = _texts(column) if self._is_text else _numbers(column)
        values = np.asarray(self.values, cells.dtype.kind)
        order = np.argsort(values)
        place = np.minimum(np.searchsorted(values[order], cells), len(values) - 1)
        code = order[place]
        return np.where(values[code] == cells, code, len(values))

    def draw_branches(self, n_branches: int, rng: np.random.Generator) -> NDArray[np.intp]:
        declared = np.arange(len(self.values))
        if len(declared) > n_branches:
            declared = rng.permutation(len(declared)) % n_branches
        return np.append(declared, rng.integers(n_branches))


@dataclass(frozen=True)
class Ranked:
    """Numbers by their rank among those of the training data: not for private forests."""

    edges: tuple[float, ...]

    @property
    def n_codes(self) -> int:
        return len(self.edges) + 1

    @property
    def n_groups(self) -> int:
        return self.n_codes

    def encode(self, column: NDArray[Any]) -> NDArray[np.intp]:
        return np.searchsorted(np.asarray(self.edges), _numbers(column), side="right")

    def draw_branches(self, n_branches: int, rng: np.random.Generator) -> NDArray[np.intp]:
        return _cut(self.n_codes, n_branches, rng)


Declared = Numeric | Categorical


def declared_domains(
    declared: Declared | Sequence[Declared] | Mapping[str, Declared], n_features: int
) -> tuple[Declared, ...]:
    """One domain per feature, from one for all, a list in their order, or a mapping by name."""
    domains: tuple[Any, ...]
    if isinstance(declared, Numeric | Categorical):
        domains = (declared,) * n_features
    else:
        domains = tuple(declared.values() if isinstance(declared, Mapping) else declared)
    if len(domains) != n_features:
        raise ParameterError(f"{len(domains)} domains are declared for {n_features} features")
    for domain in domains:
        if not isinstance(domain, Numeric | Categorical):
            raise ParameterError(f"domains: {domain!r} is neither Numeric nor Categorical")
    return domains


def in_declared_order(table: Any, declared: Mapping[str, Declared]) -> Any:
    """The columns of a polars or pandas table in the order of their declarations."""
    names = getattr(table, "columns", None)
    if names is None:
        raise ParameterError("domains by name need a table with column names")
    for name in set(names) ^ set(declared):
        where = "the table" if name in declared else "domains"
        raise ParameterError(f"column {name!r} is missing in {where}")
    return table[list(declared)]


def measured_domain(column: NDArray[Any]) -> Domain:
    """The domain that the data shows: ranks if all values are numbers, else the categories."""
    try:
        numbers = _numbers(column)
    except DataError:
        return Categorical(np.unique(_texts(column)).tolist())
    inner = np.quantile(numbers, np.arange(1, RANKS) / RANKS, method="inverted_cdf")
    # An edge at the smallest number would have nothing below it.
    return Ranked(tuple(np.unique(inner[inner > numbers.min()]).tolist()))


def _cut(n_codes: int, n_branches: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Ordered codes in `n_branches` runs: one random cut in each of n_branches − 1 equal slices."""
    n_cuts = n_branches - 1
    ends = 1 + np.arange(n_cuts + 1) * (n_codes - 1) // n_cuts
    cuts = rng.integers(ends[:-1], ends[1:])
    return np.searchsorted(cuts, np.arange(n_codes), side="right")


def _numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("a value is not a number, although its domain is numeric") from None
    if np.isnan(numbers).any():  # None and "nan" of a column of objects
        raise DataError("a value is missing; give it a number of its own within the domain")
    return numbers


def _texts(column: NDArray[Any]) -> NDArray[np.str_]:
    if column.dtype.kind in "biuf":  # as text, 1 and 1.0 would be different categories
        raise DataError("the values are numbers, although the domain is text")
    return column.astype(np.str_)

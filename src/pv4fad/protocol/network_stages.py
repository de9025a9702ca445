"""How far a run is at the payment network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Proposed:
    """Waiting for the keys of the banks, and for the aggregator, that are not in `answered`."""

    answered: list[str]


@dataclass(frozen=True)
class Running:
    """For each bank whose chain has begun, how many of its steps have been answered."""

    answered: dict[str, int]


@dataclass(frozen=True)
class Settling:
    """A match after training is in force; waiting for the banks that are not in `answered`."""

    answered: list[str]


@dataclass(frozen=True)
class Matched:
    """A match after training is complete."""


@dataclass(frozen=True)
class Comparing:
    """`done` blocks of labels received."""

    done: int


@dataclass(frozen=True)
class Revealing:
    """Released mode: own share of the labels received, waiting for the other."""


@dataclass(frozen=True)
class Trained:
    """The model exists."""

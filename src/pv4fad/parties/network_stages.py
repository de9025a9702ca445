"""What the payment network brings to a run, and how far a run is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.pairs import GroupCounts
from pv4fad.forest.structure import Forest
from pv4fad.protocol.tables import TableAccounts


@dataclass(frozen=True)
class Trees:
    """The paper's model: the forest, and the labels of the leaves that need no bank."""

    forest: Forest = field(repr=False)
    green_labels: NDArray[np.int8] = field(repr=False)


@dataclass(frozen=True)
class TrainingInput:
    """What the payment network brings: what its accounts count in each group or cell."""

    counts: GroupCounts = field(repr=False)
    sets: tuple[tuple[AtomSet, ...], ...] = field(repr=False)
    """The sets whose sums are wanted, for each group or cell."""
    tables: dict[str, TableAccounts] = field(repr=False)
    trees: Trees | None = field(default=None, repr=False)
    """None: the default model, whose groups are cells."""


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

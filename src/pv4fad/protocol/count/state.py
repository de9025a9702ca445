"""What the parties keep of count."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record


@dataclass(frozen=True)
class OwnSums(Record):
    """The payment network's share p of every sum, (groups, sets)."""

    p: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class ReleasedCounts(Record):
    """The noisy counts at the payment network, (cells, sets)."""

    counts: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class BankSums(Record):
    """A bank's share q of every sum."""

    q: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class SumsSoFar(Record):
    """V at the aggregator: what has been added up of the banks' noisy sums."""

    v: NDArray[np.uint64] = field(repr=False)

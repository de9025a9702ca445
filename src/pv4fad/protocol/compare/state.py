"""What the parties keep of compare."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record

# The payment network.


@dataclass(frozen=True)
class MaskedLeaves(Record):
    """w of every leaf, until the labels are shared."""

    w: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class LabelShareBlock(Record):
    """label − b of one block of leaves; one for each block, until there are all."""

    p: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class LabelShare(Record):
    """label − b of every leaf."""

    p: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class Labels(Record):
    """Released mode: the noisy labels."""

    labels: NDArray[np.int8] = field(repr=False)


# A bank.


@dataclass(frozen=True)
class BankLabelShare(Record):
    """Sealed mode: b of every leaf."""

    b: NDArray[np.uint64] = field(repr=False)


# The aggregator, until all labels are shared.


@dataclass(frozen=True)
class Blinding(Record):
    """r of every leaf."""

    r: NDArray[np.uint64] = field(repr=False)


@dataclass(frozen=True)
class MaskBlock(Record):
    """b of one block of leaves; one for each block."""

    b: NDArray[np.uint64] = field(repr=False)

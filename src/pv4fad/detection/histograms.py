"""How the features of training payments are distributed: what later payments are compared with.

Each feature has `BINS` bins with about equally many training payments, and one for missing values.
The *population stability index* of what is found against what is expected is

    PSI = Σ_bins (found − expected) · log(found / expected)        in shares

By custom, below 0.1 nothing has changed, and above 0.25 a great deal has: the model should be
trained again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.store.records import Record

BINS = 10
SAMPLE = 200_000
"""Training payments that are looked at, evenly spread."""
_ROWS_AT_ONCE = 1_000
SOME, MUCH = 0.1, 0.25
"""Values of the index from which drift is worth a look, and worth a training."""


@dataclass(frozen=True)
class FeatureHistograms(Record):
    """Of the training payments; the payment network's own."""

    names: tuple[str, ...]
    edges: NDArray[np.float32] = field(repr=False)  # (features, BINS - 1)
    counts: NDArray[np.int64] = field(repr=False)  # (features, BINS + 1), missing ones last

    @classmethod
    def of(cls, names: tuple[str, ...], values: NDArray[np.float32]) -> Self:
        """`values`: (payments, features), NaN where one is missing."""
        values = values[:: -(-len(values) // SAMPLE) or 1]
        steps = np.linspace(0, 1, BINS + 1)[1:-1]
        edges = np.zeros((len(names), len(steps)), np.float32)
        for bounds, column in zip(edges, values.T, strict=True):
            known = column[~np.isnan(column)]
            if len(known):
                bounds[:] = np.quantile(known, steps)
        return cls(names, edges, binned(edges, values))


def binned(edges: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.int64]:
    """(features, BINS + 1): how many values are in each bin."""
    counts = np.zeros(len(edges) * (BINS + 1), np.int64)
    first = np.arange(len(edges)) * (BINS + 1)
    for start in range(0, len(values), _ROWS_AT_ONCE):
        some = values[start : start + _ROWS_AT_ONCE]
        bins = np.where(np.isnan(some), BINS, (some[:, :, np.newaxis] >= edges).sum(axis=2))
        counts += np.bincount((bins + first).reshape(-1), minlength=len(counts))
    return counts.reshape(len(edges), BINS + 1)


def stability_index(expected: NDArray[np.number], found: NDArray[np.number]) -> NDArray[np.float64]:
    """Of counts whose last axis is bins.  A bin that is empty on one side counts as half full."""
    used = (expected > 0) | (found > 0)
    shares = []
    for counts in (expected, found):
        padded = np.where(used, np.maximum(counts, 0.5), 0.0)
        shares.append(padded / np.maximum(padded.sum(axis=-1, keepdims=True), 1e-300))
    before, now = shares
    ratio = np.divide(now, before, out=np.ones_like(now), where=used)
    return np.asarray(((now - before) * np.log(ratio)).sum(axis=-1))

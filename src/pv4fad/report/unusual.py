"""What is unusual about a payment, in the payment network's own features.

A value is unusual if few payments of the period have one as high, or as low.  That is no reason of
the model: it is what the payment network can look at without asking anybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.features import FeatureTable

_MOST = 3
_RARE = 0.02


def unusual(features: FeatureTable, rows: NDArray[np.int64]) -> list[str]:
    """For each of these rows its rarest features, `name value (0.1 %)`, joined by '; '."""
    values, chosen = features.values, features.values[rows]
    ordered = np.sort(values, axis=0)
    n, texts = len(values), []
    tails = np.empty(chosen.shape)
    for column in range(values.shape[1]):
        line = ordered[:, column]
        at_most = np.searchsorted(line, chosen[:, column], side="right")
        at_least = n - np.searchsorted(line, chosen[:, column], side="left")
        tails[:, column] = np.minimum(at_most, at_least) / n
    for row, tail in zip(chosen, tails, strict=True):
        rarest = [k for k in np.argsort(tail, kind="stable")[:_MOST] if tail[k] <= _RARE]
        texts.append("; ".join(_text(features.names[k], row[k], tail[k]) for k in rarest))
    return texts


def _text(name: str, value: float, tail: float) -> str:
    said = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{name} {said} ({100 * tail:.2g} %)"

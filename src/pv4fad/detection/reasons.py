"""Why the local model finds a payment suspicious, in the payment network's own terms.

A feature is a reason as far as the score would fall if it had its usual value, the median of
training, and all others stayed as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel

_LEAST_FALL = 0.1  # of the log-odds, to be a reason


def usual_values(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The median of each feature; 0 where it is never known."""
    known = np.where(np.isfinite(features).any(axis=0), features, np.float32(0))
    return np.asarray(np.nanmedian(known, axis=0), np.float32)


def local_reasons(
    model: LocalModel,
    features: NDArray[np.float32],
    usual: NDArray[np.float32],
    most: int = 3,
) -> list[list[str]]:
    """For each payment up to `most` features with their values, the strongest reason first."""
    if not len(features):
        return []
    score = model.score(features)
    fall = np.empty(features.shape, np.float32)
    for column, value in enumerate(usual):
        changed = features.copy()
        changed[:, column] = value
        fall[:, column] = score - model.score(changed)
    strongest = np.argsort(-fall, axis=1, kind="stable")[:, :most]
    return [
        [
            f"{model.names[column]} {row[column]:.4g} (usually {usual[column]:.4g})"
            for column in order
            if falls[column] >= _LEAST_FALL
        ]
        for row, falls, order in zip(features, fall, strongest, strict=True)
    ]

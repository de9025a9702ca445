"""Is it uniform?  Chi-square, with a false alarm in one of 10^9 looks."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

FALSE_ALARM = 1e-9
_CELLS = 256
# Of the many pairs of rows fewer slots and cells: a mask that serves twice does so in every slot.
_PAIR_SLOTS, _PAIR_CELLS = 1024, 32


def is_uniform(values: np.ndarray, modulus: int) -> bool:
    """Residues modulo t, in cells of (almost) equal size, at least 8 values expected in each.

    Noticed with a probability above one half: n·Σ(p−q)²/q > limit − cells, p the true and q the
    uniform probabilities.  With 64 values (8 cells, limit 56) half of the range left out; with
    16384 values (256 cells, limit 415) one half of the range 20 % likelier than the other.
    """
    return _are_uniform(values.reshape(1, -1), modulus, FALSE_ALARM)


def are_uniform_and_fresh(rows: np.ndarray, modulus: int) -> bool:
    """Rows of residues: uniform together and each by itself, and so is the difference of any two,
    so that no mask serves twice.  One false alarm in 10^9 looks at all rows and pairs together."""
    wide = rows.astype(np.int64)
    if not (is_uniform(wide, modulus) and _are_uniform(wide, modulus, FALSE_ALARM / len(rows))):
        return False
    some = wide[:, :: max(1, wide.shape[1] // _PAIR_SLOTS)]
    false_alarm = FALSE_ALARM / max(1, len(rows) * (len(rows) - 1) // 2)
    return all(
        _are_uniform((some[later:] - some[later - 1]) % modulus, modulus, false_alarm, _PAIR_CELLS)
        for later in range(1, len(rows))
    )


def _are_uniform(
    rows: np.ndarray, modulus: int, false_alarm: float, most_cells: int = _CELLS
) -> bool:
    """Each row by itself."""
    n_rows, n = rows.shape
    n_cells = min(most_cells, n // 8)
    first = [-(-cell * modulus // n_cells) for cell in range(n_cells + 1)]  # residue of each cell
    expected = np.diff(np.array(first)) * (n / modulus)
    cells = rows.astype(np.int64) * n_cells // modulus + n_cells * np.arange(n_rows)[:, np.newaxis]
    found = np.bincount(cells.ravel(), minlength=n_rows * n_cells).reshape(n_rows, n_cells)
    statistics = ((found - expected) ** 2 / expected).sum(axis=1)
    return bool((statistics < chi2.isf(false_alarm, n_cells - 1)).all())

"""From noisy counts to log-odds: how telling each kind of account is, in each stratum.

For a kind of account (`classes.kinds`) and one (side, first, stratum), with μ accounts of the kind
expected in a cell and W rows of each label per account (`cells.rows_per_account`),

    n1 = μ_hit·W1                           payments of label 1, of hits in this cell
    n0 = μ_clean·W0 + μ_hit·W0' + rest      payments of label 0, of accounts without a hit, of
                                            these hits, and of accounts in other cells
    θ  = log(n1/n0)                         the log-odds that are wanted

A count is Poisson(μ) plus noise of known distribution (`noise`); μ_clean is flat in its logarithm,
and `rest` is taken at its posterior mean.  One half of the prior on θ lies on the overall odds of
the stratum, where the kind says nothing; the other half is uniform from there to +6.  The result
is the posterior median of θ, and -∞ where that lies on the first half: noise alone is no evidence,
and no kind of account is better than ordinary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pv4fad.evidence.cells import N_HIT_CELLS
from pv4fad.evidence.noise import CountNoise, log_likelihood
from pv4fad.evidence.strata import N_STRATA
from pv4fad.forest.tree import Side

Floats = NDArray[np.float64]

HIGHEST = 6.0
_STEPS = 49
_SAYS_NOTHING = 0.5  # prior probability
_SMALLEST_MEAN = 0.05
_SOME = 0.02  # rows: nothing is known so well that there is none
_IMPOSSIBLE = -1e9


@dataclass(frozen=True)
class KindEvidence:
    """What the counts say, by (side, first, stratum, kind)."""

    log_odds: Floats = field(repr=False)
    """-∞: nothing."""
    share: Floats = field(repr=False)
    """The expected share of payments whose account on this side is of the kind."""

    @classmethod
    def of(
        cls, counts: NDArray[np.int64], kept: NDArray[np.int64], rows: Floats, noise: CountNoise
    ) -> Self:
        """`counts`: (cells, kinds), noisy.  `rows`: (cells, side, first, stratum, label)."""
        means = _means(counts, noise)
        likelihood = log_likelihood(counts, means, noise)
        log_width = np.log(np.gradient(np.log(means)))  # the prior is flat in the logarithm
        weight = np.exp(likelihood + log_width[:, None, None] - likelihood.max(axis=0))
        accounts = (weight * means[:, None, None]).sum(axis=0) / weight.sum(axis=0)
        accounts = np.where(kept[:, np.newaxis] > 0, accounts, 0.0)
        total = np.tensordot(kept, rows, 1)  # (side, first, stratum, label)
        expected = np.einsum("ck,csfb->sfbk", accounts, rows.sum(axis=-1))
        share = np.minimum(expected / np.maximum(total.sum(axis=-1), 1.0)[..., np.newaxis], 1.0)
        log_odds = np.full(share.shape, -np.inf)
        for side, first, stratum in product(range(len(Side)), range(2), range(N_STRATA)):
            hit = (side * 2 + first) * N_STRATA + stratum
            clean = N_HIT_CELLS + side * N_STRATA + stratum
            anomalous, normal = np.moveaxis(rows[:, side, first, stratum], -1, 0)[::-1]
            all_0, all_1 = total[side, first, stratum]
            usual = min(float(np.log((all_1 + 0.5) / (all_0 + 1.0))), 0.0)
            for kind in range(counts.shape[1]):
                rest = np.delete(accounts[:, kind] * normal, [hit, clean]).sum() + _SOME
                log_odds[side, first, stratum, kind] = _median(
                    np.linspace(usual, HIGHEST, _STEPS),
                    means,
                    likelihood[:, hit, kind],
                    likelihood[:, clean, kind] + log_width,
                    per_hit=(max(anomalous[hit], 0.5), normal[hit]),
                    normal_rows=means * normal[clean] + rest,
                )
        return cls(log_odds, share)


def _means(counts: NDArray[np.int64], noise: CountNoise) -> Floats:
    """Possible expected counts: as dense as a Poisson count can tell, up to the largest."""
    largest = max(0, int(counts.max(initial=0))) + 6 * noise.deviation
    few = np.geomspace(_SMALLEST_MEAN, 4.0, 24)
    many = np.arange(2.25, np.sqrt(largest) + 4.0, 0.25) ** 2  # half a deviation apart
    return np.concatenate([few, many])


def _median(
    theta: Floats,
    means: Floats,
    hit_likelihood: Floats,
    clean_likelihood: Floats,
    *,
    per_hit: tuple[float, float],
    normal_rows: Floats,
) -> float:
    """Of θ, given log likelihoods of the means; `theta[0]` says nothing.

    `per_hit`: rows of label 1 and 0 of a hit.  `normal_rows`: of all other accounts, by mean.
    """
    # n1/n0 = e^θ for this many hits; it is out of reach where their own rows of label 0 forbid it.
    per_account = per_hit[0] - np.exp(theta) * per_hit[1]
    within = per_account > 0
    log_hits = np.where(
        within[:, np.newaxis],
        theta[:, np.newaxis]
        + np.log(normal_rows)
        - np.log(np.where(within, per_account, 1.0))[:, np.newaxis],
        np.inf,
    )
    of_hits = np.interp(log_hits, np.log(means), hit_likelihood, right=_IMPOSSIBLE)
    log_posterior = logsumexp(of_hits + clean_likelihood, axis=1)
    mass = np.exp(log_posterior - log_posterior.max())
    slab = mass / len(theta) * (1 - _SAYS_NOTHING)
    below = mass[0] * _SAYS_NOTHING + np.cumsum(slab)
    below /= below[-1]
    if below[0] >= 0.5:
        return -np.inf
    return float(np.interp(0.5, below, theta))

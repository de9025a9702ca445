"""From noisy counts to log-odds: how telling each kind of account is, in each stratum.

For a kind of account (`classes.kinds`) and one (side, first, stratum), with μ accounts of the kind
expected in a cell and W rows of each label per account (`cells.rows_per_account`),

    n1 = μ_hit·W1                           payments of label 1, of hits in this cell
    n0 = μ_clean·W0 + μ_hit·W0' + rest      payments of label 0, of accounts without a hit, of
                                            these hits, and of accounts in other cells
    θ  = log(n1/n0)                         the log-odds that are wanted

A count is Poisson(μ) plus noise of known distribution (`noise`); μ_clean is flat in its logarithm,
and `rest` is taken at its posterior mean.  A kind either *says nothing*, and θ is the overall
log-odds of the stratum, or it *tells*, and its share of the hits in the cell can be anything,
uniform from 0 to 1.  Before the counts are seen, each kind of a stratum tells with probability p,
and p, the same for all of them, is Beta(1, ½): 2/3 on average, often near 1.  So a kind that
tells makes it likelier that the others of its stratum tell too, and kinds that say nothing make it
less likely.  The result is the posterior median of θ, and -∞ where that is not above the overall
log-odds: noise alone is no evidence, and no kind of account is better than an ordinary one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logsumexp

from pv4fad.evidence.cells import n_hit_cells
from pv4fad.evidence.noise import CountNoise, log_likelihood
from pv4fad.evidence.strata import N_STRATA

Floats = NDArray[np.float64]

_PRIOR = 1.0, 0.5  # Beta, of the probability that a kind of the stratum tells
_SMALLEST_MEAN = 0.05
_SOME = 0.02  # rows: nothing is known so well that there is none
_LEAST_PER_HIT = 0.5  # rows of label 1; a hit has one at least, if not of this cell


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
        log_odds, n_sides = np.full(share.shape, -np.inf), rows.shape[1]
        for side, first, stratum in product(range(n_sides), range(2), range(N_STRATA)):
            hit = (side * 2 + first) * N_STRATA + stratum
            clean = n_hit_cells(n_sides) + side * N_STRATA + stratum
            anomalous, normal = np.moveaxis(rows[:, side, first, stratum], -1, 0)[::-1]
            all_0, all_1 = total[side, first, stratum]
            usual = float(np.log((all_1 + 0.5) / (all_0 + 1.0)))
            if not kept[hit]:
                continue
            rest = np.delete(accounts * normal[:, np.newaxis], [hit, clean], axis=0).sum(axis=0)
            posteriors = [
                _Posterior(
                    means,
                    likelihood[:, hit, kind],
                    likelihood[:, clean, kind] + log_width,
                    per_hit=(max(anomalous[hit], _LEAST_PER_HIT), normal[hit]),
                    normal_rows=means * normal[clean] + rest[kind] + _SOME,
                    usual=usual,
                    n_hits=int(kept[hit]),
                )
                for kind in range(counts.shape[1])
            ]
            tells = _tells(
                np.array([one.log_tells for one in posteriors]),
                np.array([one.log_says_nothing for one in posteriors]),
            )
            log_odds[side, first, stratum] = [
                one.median(chance) for one, chance in zip(posteriors, tells.tolist(), strict=True)
            ]
        return cls(log_odds, share)


def _means(counts: NDArray[np.int64], noise: CountNoise) -> Floats:
    """Possible expected counts: as dense as a Poisson count can tell, up to the largest."""
    largest = max(0, int(counts.max(initial=0))) + 6 * noise.deviation
    few = np.geomspace(_SMALLEST_MEAN, 4.0, 24)
    many = np.arange(2.25, np.sqrt(largest) + 4.0, 0.25) ** 2  # half a deviation apart
    return np.concatenate([few, many])


def _tells(log_tells: Floats, log_says_nothing: Floats) -> Floats:
    """P(kind tells | counts), from log P(its counts | it tells), log P(its counts | it does not).

    All kinds of one stratum.  Of m telling kinds out of n only the number matters, so the sum over
    which of the others tell is a product of polynomials, the power of x counting them.
    """
    n = len(log_tells)
    telling = np.arange(n + 1)
    log_prior = betaln(_PRIOR[0] + telling, _PRIOR[1] + n - telling)
    found = np.empty(n)
    for kind in range(n):
        others = np.zeros(1)  # log coefficients of Π (nothing + tells·x)
        for other in np.delete(np.arange(n), kind):
            without = np.append(others + log_says_nothing[other], -np.inf)
            with_it = np.append(-np.inf, others + log_tells[other])
            others = np.logaddexp(without, with_it)
        tells = log_tells[kind] + logsumexp(others + log_prior[1:])
        nothing = log_says_nothing[kind] + logsumexp(others + log_prior[:-1])
        found[kind] = expit(tells - nothing)
    return found


@dataclass(frozen=True)
class _Posterior:
    """Of θ in one stratum, for one kind.  Arrays are by expected count, of hits or of others."""

    means: Floats
    of_hits: Floats  # log likelihoods
    of_clean: Floats  # and the prior
    per_hit: tuple[float, float]
    """Rows of label 1 and of label 0 of a hit."""
    normal_rows: Floats
    """Of label 0, of all but these hits, by the mean of accounts without a hit."""
    usual: float
    """The overall log-odds of the stratum."""
    n_hits: int
    """Of all kinds."""

    @cached_property
    def log_tells(self) -> float:
        """log P(counts | the kind tells)."""
        return float(logsumexp(self._told))

    @cached_property
    def log_says_nothing(self) -> float:
        """log P(counts | θ is the usual one)."""
        # n1/n0 = e^θ for this many hits; out of reach if their own rows of label 0 forbid it.
        rows_per_hit = self.per_hit[0] - np.exp(self.usual) * self.per_hit[1]
        if rows_per_hit <= 0:
            return -np.inf
        log_hits = self.usual + np.log(self.normal_rows) - np.log(rows_per_hit)
        of_hits = np.interp(log_hits, np.log(self.means), self.of_hits, right=-np.inf)
        return float(logsumexp(of_hits + self.of_clean))

    def median(self, tells: float) -> float:
        """If the kind tells with this probability; -∞ if it is not above what is usual."""
        hits = self.means[:, np.newaxis]
        theta = np.log(hits * self.per_hit[0]) - np.log(self.normal_rows + hits * self.per_hit[1])
        above = theta > self.usual
        theta, weight = theta[above], tells * np.exp(self._told[above] - self.log_tells)
        missing = float(weight.sum()) - 0.5  # to the median, from above
        if missing <= 0:
            return -np.inf
        order = np.argsort(theta)
        return float(theta[order][np.searchsorted(np.cumsum(weight[order]), missing)])

    @cached_property
    def _told(self) -> Floats:
        """log P(counts, expected counts | the kind tells): (of hits, of others)."""
        width = np.where(self.means <= self.n_hits, np.gradient(self.means), 0.0)
        with np.errstate(divide="ignore"):
            log_prior = np.log(width / width.sum())
        return np.asarray((log_prior + self.of_hits)[:, np.newaxis] + self.of_clean)

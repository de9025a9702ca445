"""The calibrated combiner: from vote totals and the local score to one probability.

No query beyond the scoring itself.  On each side of a transaction the accounts that got the same
total are of one kind, as far as the payment network can tell.  Most accounts are of the usual kind,
which says nothing that the local score does not know.  For the kinds that stand out, log-odds θ
that a payment of such an account is anomalous follow by Bayes' rule from

    ladder     how likely the total is for accounts with these odds (`ladder`)
    history    the labels of what these accounts paid or were paid in training: the payment
               network's own data.  Every account has a rate of its own, Beta(p, 1 − p) around that
               of its kind: a busy account is one account still.  Payments between accounts that
               had not dealt with each other before count apart, and so do those to be scored
    prior      kinds that stand out, of both sides, are alike: θ lies around a level that they
               share, and the level around the log-odds of an anomaly in general.  Give or take a
               factor 20 each time, with heavy tails

So what is known of one kind that stands out says something about another, of which there are two
accounts without any past.  The local score and both sides then combine as a noisy or (`noisy_or`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logit, logsumexp, softmax

from pv4fad.detection.ladder import LabelNoise, total_likelihood
from pv4fad.detection.noisy_or import PRIOR_SCALE

Floats = NDArray[np.float64]

_GRID = np.linspace(-18.0, 8.0, 105)  # log-odds
_MANY_ACCOUNTS, _MAY_WELL_BE = 100, 0.01
_OUTSIDE_THE_MODEL = 0.1  # prior probability that a total is not as the ladder says


@dataclass(frozen=True)
class LadderSide:
    """The trees that ask about one side, and the accounts there, as of training."""

    rates: tuple[float, ...]
    """At which these trees keep label-0 payments."""
    accounts: float
    """Of the payment network, on this side, in one tree on average."""
    payments: float
    """Of such an account on average."""


@dataclass(frozen=True)
class SideVotes:
    """The total of each transaction on one side, and what is known about the accounts there."""

    totals: NDArray[np.int64] = field(repr=False)  # (n,)
    account: NDArray[np.int64] = field(repr=False)  # (n,): a number into `history`
    is_first: NDArray[np.bool_] = field(repr=False)  # (n,): the two accounts had not dealt before
    history: NDArray[np.int64] = field(repr=False)
    """(accounts, 2, 2): training payments on this side by is_first and label."""


def side_log_odds(
    sides: Sequence[tuple[SideVotes, LadderSide]], noise: LabelNoise, anomaly_share: float
) -> Floats:
    """(sides, n): the log-odds that each transaction is anomalous, by its kind on that side.

    −∞ for the usual kind: no reason for suspicion.
    """
    standing_out = []
    for side, (votes, ladder) in enumerate(sides):
        kinds = _kinds(side, votes, ladder, noise)
        usual = _usual(kinds, ladder, noise, anomaly_share)
        standing_out += [kind for kind in kinds if kind is not usual]
    log_odds = np.full((len(sides), len(sides[0][0].totals)), -np.inf)
    for is_first in (0, 1):
        likelihoods = [kind.log_likelihood(is_first) for kind in standing_out]
        found = _alike(likelihoods, _around(logit(anomaly_share)))
        for kind, theta in zip(standing_out, found, strict=True):
            log_odds[kind.side, kind.rows[is_first]] = theta
    return log_odds


@dataclass(frozen=True)
class _Kind:
    """The accounts that got one total on one side."""

    side: int
    total: int
    rows: tuple[NDArray[np.bool_], NDArray[np.bool_]] = field(repr=False)  # by is_first
    log_ladder: Floats = field(repr=False)
    history: NDArray[np.int64] = field(repr=False)  # (accounts, 2, 2): by is_first and label

    def log_likelihood(self, is_first: int) -> Floats:
        """Of total and history, for each θ."""
        accounts, times = np.unique(self.history[:, is_first], axis=0, return_counts=True)
        normal, anomalous = accounts[:, :1], accounts[:, 1:]
        chance, otherwise = expit(_GRID), expit(-_GRID)
        beta_binomial = betaln(chance + anomalous, otherwise + normal) - betaln(chance, otherwise)
        return np.asarray(self.log_ladder + times @ beta_binomial)


def _kinds(side: int, votes: SideVotes, ladder: LadderSide, noise: LabelNoise) -> list[_Kind]:
    """The kinds of accounts of one side."""
    kinds = []
    n_accounts = len(np.unique(votes.account))
    for total in np.unique(votes.totals):
        of_total = votes.totals == total
        accounts = np.unique(votes.account[of_total])
        history = votes.history[accounts]
        log_ladder = _log_ladder(
            int(total),
            ladder,
            noise,
            accounts=len(accounts) / n_accounts * ladder.accounts,
            payments=(history.sum() + ladder.payments) / (len(accounts) + 1),
        )
        rows = of_total & ~votes.is_first, of_total & votes.is_first
        kinds.append(_Kind(side, int(total), rows, log_ladder, history))
    return kinds


def _usual(
    kinds: Sequence[_Kind], ladder: LadderSide, noise: LabelNoise, anomaly_share: float
) -> _Kind | None:
    """The kind with most accounts.

    Of a few accounts all can stand out: then only a total that accounts in general may well have.
    """
    if sum(len(kind.history) for kind in kinds) < _MANY_ACCOUNTS:
        odds = np.array([anomaly_share / (1 - anomaly_share)])
        likelihood = partial(
            total_likelihood,
            odds=odds,
            rates=ladder.rates,
            accounts=ladder.accounts,
            payments=ladder.payments,
            noise=noise,
        )
        kinds = [kind for kind in kinds if likelihood(kind.total) > _MAY_WELL_BE]
    return max(kinds, key=lambda kind: len(kind.history), default=None)


def _alike(log_likelihoods: Sequence[Floats], log_prior: Floats) -> list[float]:
    """Log-odds of kinds that share a level; `log_prior`: of that level."""
    if not log_likelihoods:
        return []
    levels = np.stack([_around(level) for level in _GRID], axis=1)  # (θ, level)
    joint = np.stack(log_likelihoods)[:, :, np.newaxis] + levels
    level = softmax(log_prior + logsumexp(joint, axis=1).sum(axis=0))
    chance = expit(_GRID) @ softmax(joint, axis=1)  # (kinds, level)
    return [float(one) for one in logit(chance @ level)]


def _around(centre: float) -> Floats:
    # Heavy tails: there are kinds of accounts of which every payment is anomalous.
    density = -np.log1p(((_GRID - centre) / PRIOR_SCALE) ** 2)
    return np.asarray(density - logsumexp(density))


def _log_ladder(
    total: int, ladder: LadderSide, noise: LabelNoise, *, accounts: float, payments: float
) -> Floats:
    if not ladder.rates:
        return np.zeros_like(_GRID)
    likelihood = total_likelihood(
        total,
        np.exp(_GRID),
        rates=ladder.rates,
        accounts=accounts,
        payments=payments,
        noise=noise,
    )
    uniform = 1 / (len(ladder.rates) + 1)
    return np.log((1 - _OUTSIDE_THE_MODEL) * likelihood + _OUTSIDE_THE_MODEL * uniform)

"""The calibrated combiner: from vote totals and the local score to one probability.

No query beyond the scoring itself.  On each side of a transaction the accounts that got the same
total are of one kind, as far as the payment network can tell.  How likely a payment of such an
account is anomalous, log-odds θ, follows by Bayes' rule from

    prior      θ lies around the log-odds of an anomaly in general, give or take a factor 20, with
               heavy tails
    ladder     how likely the total is for accounts with these odds (`ladder`)
    history    the labels of what these accounts paid or were paid in training: the payment
               network's own data.  Payments between accounts that had not dealt with each other
               before count apart from the others, and so do those to be scored

The local score and both sides then combine as a noisy or (`noisy_or`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit, softmax

from pv4fad.detection.ladder import LabelNoise, total_likelihood
from pv4fad.detection.noisy_or import PRIOR_SCALE

Floats = NDArray[np.float64]

_GRID = np.linspace(-18.0, 8.0, 105)  # log-odds
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
    votes: SideVotes, ladder: LadderSide, noise: LabelNoise, anomaly_share: float
) -> Floats:
    """(n,): the log-odds that each transaction is anomalous, by its kind on this side."""
    n_accounts = len(np.unique(votes.account))
    log_odds = np.zeros(len(votes.totals))
    for total in np.unique(votes.totals):
        of_total = votes.totals == total
        accounts = np.unique(votes.account[of_total])
        known = votes.history[accounts]
        log_prior = _log_prior(anomaly_share)
        if ladder.rates:
            log_prior += _log_ladder(
                int(total),
                ladder,
                noise,
                accounts=len(accounts) / n_accounts * ladder.accounts,
                payments=(known.sum() + ladder.payments) / (len(known) + 1),
            )
        for is_first in (0, 1):
            rows = of_total & (votes.is_first == is_first)
            theta = softmax(log_prior + _log_history(known[:, is_first]))
            log_odds[rows] = logit(expit(_GRID) @ theta)
    return log_odds


def _log_prior(anomaly_share: float) -> Floats:
    # Heavy tails: there are kinds of accounts of which every payment is anomalous.
    return np.asarray(-np.log1p(((_GRID - logit(anomaly_share)) / PRIOR_SCALE) ** 2))


def _log_ladder(
    total: int, ladder: LadderSide, noise: LabelNoise, *, accounts: float, payments: float
) -> Floats:
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


def _log_history(history: NDArray[np.int64]) -> Floats:
    """Of labels (accounts, 2); an account is one observation, however many payments it has."""
    normal, anomalous = history.sum(axis=0)
    n_known = int((history.sum(axis=1) > 0).sum())
    weight = n_known / max(1, normal + anomalous)
    return np.asarray(weight * (normal * log_expit(-_GRID) + anomalous * log_expit(_GRID)))

"""The ladder read backwards: how likely a vote total is for an account of a given kind.

A *kind* of account is what gives it its total: a set of the bank conditions, or their rest.  Say a
kind has odds o of an anomaly, n accounts in tree t, and m payments per account.  Tree t keeps
label-0 payments at rate r, and of the kept payments of an account one counts.  So of its accounts

    a share 1 − exp(−m·(o + r)/(1 + o)) counts at all,
    and of these o/(o + r) count +1, and r/(o + r) count −1

The expected sum has the sign of o − r: the label says whether the odds exceed the rate of the tree,
and the total says where on the ladder they are.  Both numbers are about Poisson; with the noise, of
known distribution, this gives the probability of each label, and that of each total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.privacy.epsilon import Epsilon

Floats = NDArray[np.float64]

_FINE_ENOUGH = 50.0  # cells per deviation of the noise
_MOST_ACCOUNTS = 200.0  # more make a label no less certain, but the computation long


@dataclass(frozen=True)
class LabelNoise:
    """The noise in the sum of a leaf, from public parameters: a sum of discrete Laplace draws."""

    rate: float | None
    """ε/Δ; None: there is no noise."""
    draws: float
    """How many; a fraction where shares of more banks than are relied on add up."""

    @classmethod
    def of(cls, epsilon: Epsilon, sensitivity: int, draws: float) -> Self:
        return cls(None if epsilon == "none" else float(epsilon) / sensitivity, draws)

    @property
    def deviation(self) -> float:
        if self.rate is None:
            return 0.0
        alpha = np.exp(-self.rate)
        return float(np.sqrt(2 * alpha * self.draws) / (1 - alpha))

    def characteristic(self, omega: Floats) -> Floats:
        """E[exp(iω·noise)]; real, because the noise is symmetric."""
        if self.rate is None:
            return np.ones_like(omega)
        alpha = np.exp(-self.rate)
        one = (1 - alpha) ** 2 / (1 - 2 * alpha * np.cos(omega) + alpha**2)
        return np.asarray(one**self.draws)


def total_likelihood(
    total: int,
    odds: Floats,
    *,
    rates: Sequence[float],
    accounts: float,
    payments: float,
    noise: LabelNoise,
) -> Floats:
    """P(total | o) for each o of `odds`: votes of as many trees as there are rates.

    `accounts`: of this kind in a tree, on average; `payments`: of such an account, on average.
    """
    distribution = np.ones((len(odds), 1))
    for rate in rates:
        chance = label_chance(odds, rate, accounts=accounts, payments=payments, noise=noise)
        one, none = chance[:, np.newaxis], np.zeros((len(odds), 1))
        votes_0 = np.concatenate([distribution * (1 - one), none], axis=1)
        votes_1 = np.concatenate([none, distribution * one], axis=1)
        distribution = votes_0 + votes_1
    return np.asarray(distribution[:, total])


def label_chance(
    odds: Floats, rate: float, *, accounts: float, payments: float, noise: LabelNoise
) -> Floats:
    """P(label = 1) in a tree that keeps label-0 payments at this rate."""
    counting = min(accounts, _MOST_ACCOUNTS) * -np.expm1(-payments * (odds + rate) / (1 + odds))
    positive = counting * odds / (odds + rate)
    return positive_chance(positive, counting - positive, noise)


def positive_chance(up: Floats, down: Floats, noise: LabelNoise) -> Floats:
    """P(Poisson(up) − Poisson(down) + noise > 0), from the characteristic function."""
    deviation = float(np.sqrt((up + down).max(initial=0.0))) + noise.deviation
    reach = float(np.abs(up - down).max(initial=0.0)) + 12 * deviation + 32
    # Much noise is as good as continuous: a coarser grid then, and the same work for every ε.
    step = max(1.0, noise.deviation / _FINE_ENOUGH)
    size = 1 << int(np.ceil(np.log2(2 * reach / step)))
    omega = 2 * np.pi * np.arange(size // 2 + 1) / size / step
    turn = np.exp(1j * omega)
    exponent = up[:, np.newaxis] * (turn - 1) + down[:, np.newaxis] * (np.conj(turn) - 1)
    spectrum = np.conj(np.exp(exponent)) * noise.characteristic(omega)
    mass = np.fft.irfft(spectrum, size, axis=1)  # column k is value k·step, or (k − size)·step
    of_middle = 0.5 - 0.5 / step  # of the middle cell, the part above ½
    positive = mass[:, 1 : size // 2].sum(axis=1) + of_middle * mass[:, 0]
    return np.asarray(np.clip(positive, 0.0, 1.0))

"""How likely a noisy count is.

Banks add discrete Laplace noise, P(x) ∝ exp(-|x|·ε/Δ), or shares of it.  The noise in a released
count is a sum of such draws, as many as there are banks over banks that are relied on; the number
need not be whole, and the characteristic function of the sum is that of one draw to its power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from pv4fad.errors import ParameterError
from pv4fad.privacy.epsilon import Epsilon

Floats = NDArray[np.float64]

_DEVIATIONS = 20  # beyond which noise has a probability below 1e-12
_LEAST = 1e-300


@dataclass(frozen=True)
class CountNoise:
    """The noise in a count, from public parameters."""

    rate: float | None
    """ε/Δ; None: there is no noise."""
    draws: float = 1.0
    """How many of discrete Laplace."""

    def __post_init__(self) -> None:
        if self.rate is not None and not (self.rate > 0 and self.draws > 0):
            raise ParameterError("noise needs a rate and a number of draws above 0")

    @classmethod
    def of(cls, epsilon: Epsilon, sensitivity: int, draws: float) -> Self:
        return cls(None if epsilon == "none" else float(epsilon) / sensitivity, draws)

    @property
    def deviation(self) -> float:
        if self.rate is None:
            return 0.0
        alpha = np.exp(-self.rate)
        return float(np.sqrt(2 * alpha * self.draws) / (1 - alpha))

    def probabilities(self) -> Floats:
        """P(-r), …, P(0), …, P(r); all but 1e-12 of the noise is within ±r."""
        if self.rate is None:
            return np.ones(1)
        reach = int(np.ceil(_DEVIATIONS * self.deviation)) + 32
        size = 2 * reach + 1
        alpha = np.exp(-self.rate)
        omega = 2 * np.pi * np.arange(reach + 1) / size
        one = (1 - alpha) ** 2 / (1 - 2 * alpha * np.cos(omega) + alpha**2)
        mass = np.maximum(np.fft.fftshift(np.fft.irfft(one**self.draws, size)), 0.0)
        return np.asarray(mass / mass.sum())


def log_likelihood(counts: NDArray[np.int64], means: Floats, noise: CountNoise) -> Floats:
    """(means, *counts.shape): log P(count), where it is Poisson of this mean, plus noise."""
    chance = noise.probabilities()
    reach = len(chance) // 2
    found = np.empty((len(means), counts.size))
    for number, count in enumerate(counts.ravel().tolist()):
        true = np.arange(max(0, count - reach), max(0, count + reach + 1))
        log_poisson = xlogy(true, means[:, np.newaxis]) - means[:, np.newaxis] - gammaln(true + 1)
        found[:, number] = np.exp(log_poisson) @ chance[count - true + reach]
    return np.log(np.maximum(found, _LEAST)).reshape(len(means), *counts.shape)

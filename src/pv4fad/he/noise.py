"""Static noise bounds: how large the noise can get, from the parameters alone.

The standard canonical-embedding analysis.  A polynomial with independent coefficients of variance
V has canonical norm at most κ·√(N·V), and a sum of N·… independent terms of total variance V has
coefficients at most τ·√V, each except with probability 2^-64 over the polynomials of a run, 2^24,
or as many as a model is told; canonical norms multiply, and bound coefficients.  Random plaintexts
count as uniform, variance t²/12; those that are somebody's data as the worst there can be.

The library's modulus switch rounds into (−t, 0], not around 0: a rounding is uniform with mean
−t/2.  The mean is −t/2·J, J = 1 + X + … + X^(N−1), and |J(ζ)| = 2/|1 − ζ| ≤ 2N/π at every root ζ
of X^N + 1.  The digits of key switching lie in [0, q), with mean q/2.

`phase` is message + t·noise, what decryption sees; all bounds are on its size.  Measured phases lie
below them in every test (`tests/he/test_noise.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log, log2, pi, prod, sqrt

from pv4fad.errors import ParameterError
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Flood

FAILURE_BITS = 64
RUN_POLYNOMIAL_BITS = 24  # log2 of the polynomials in one run
VALUE_BITS = 14  # of the values of a polynomial
ERROR_VARIANCE = 10.5  # the library's centred binomial, 21 pairs of bits
SECRET_VARIANCE = 2 / 3  # uniform ternary
UNIFORM_VARIANCE = 1 / 12  # of a uniform value, in units of its range
_MEAN_EXCESS = 0.15  # of the mean square of N ≥ 4096 roundings over its expectation


@dataclass(frozen=True, eq=False)
class CircuitBound:
    """What a circuit's static analysis promises."""

    circuit: str
    steps: dict[str, float]  # log2 of the phase after each step
    noise_bits: float  # log2 B, the noise before sanitising
    flood: Flood
    distance_bits: float  # −log2 of the statistical distance from uniform, per ciphertext
    deviating_bits: float  # the same whatever noise and keys the key holder chose (`sanitise`)


class NoiseModel:
    """Bounds in one ring."""

    def __init__(self, ring: Ring, polynomial_bits: int = RUN_POLYNOMIAL_BITS) -> None:
        ln_tail = log(2) * (FAILURE_BITS + polynomial_bits + VALUE_BITS + 1)
        self.kappa = sqrt(ln_tail)  # |a(ζ)|² is exponential: P(|a(ζ)| > κ√(NV)) = exp(−κ²)
        self.tau = sqrt(2 * ln_tail)  # P(|x| > τσ) ≤ 2·exp(−τ²/2)
        self.n = ring.degree
        self.t = ring.plain_modulus
        self.primes = ring.primes
        self.special = 2.0 ** ring.parameters.prime_bits[-1]

    # Canonical norms of single steps.

    @property
    def plain(self) -> float:
        """A plaintext with random slots."""
        return self.kappa * self.t * sqrt(self.n * UNIFORM_VARIANCE)

    @property
    def data(self) -> float:
        """A plaintext with any slots: no coefficient is above t/2."""
        return self.n * self.t / 2

    @property
    def fresh(self) -> float:
        """A fresh encryption under the secret key."""
        return self.kappa * self.t * sqrt(self.n * (ERROR_VARIANCE + UNIFORM_VARIANCE))

    @property
    def _roundings(self) -> float:
        """One polynomial of roundings: the random part, and the mean."""
        return self.plain + self.t / 2 * self._all_ones

    @property
    def _all_ones(self) -> float:
        return 2 * self.n / pi

    @property
    def rounding(self) -> float:
        """What switching the modulus adds: τ₀ + τ₁·s."""
        return self._roundings * (1 + self.kappa * sqrt(self.n * SECRET_VARIANCE))

    def relinearisation(self, n_primes: int) -> float:
        """What switching the key adds."""
        largest = max(self.primes)
        digits = self.kappa * sqrt(self.n * UNIFORM_VARIANCE * n_primes) * largest
        digits += n_primes * largest / 2 * self._all_ones
        errors = self.kappa * self.t * sqrt(self.n * ERROR_VARIANCE)
        return digits * errors / self.special + self.rounding

    def product(self, left: float, right: float, n_primes: int) -> float:
        """Product of two ciphertexts at a level, relinearised and switched one prime down."""
        return self.switched(left * right + self.relinearisation(n_primes), n_primes)

    def switched(self, phase: float, n_primes: int) -> float:
        """One prime down from a level."""
        return phase / self.primes[n_primes - 1] + self.rounding

    # Coefficients, where it is they that count: before sanitising and after.

    @property
    def rounding_coefficient(self) -> float:
        """A coefficient of τ₀ + τ₁·s.  Given τ₁, no coefficient of it above t, s is random:
        Σ ± τ₁·s has a variance of at most 2/3·Σ τ₁², and E[τ₁²] is t²/3."""
        square = self.t**2 / 3 * (1 + _MEAN_EXCESS)
        return self.t + self.tau * sqrt(SECRET_VARIANCE * self.n * square)

    def masked_rounding_coefficient(self, n_terms: int, n_alike: int = 1) -> float:
        """A coefficient of Σ mask·(τ₀ + τ₁·s) over n_terms roundings and any masks.

        Up to n_alike of the roundings are one and the same; these count as n_terms/n_alike
        independent ones, with masks n_alike times as long.

        A mask has length at most √N·t/2.  Let a = Σ mask·τ₁; s is independent of it, so that a
        coefficient of a·s is at most τ·√(2/3) times the length of a.  The random part of a has,
        by Parseval, at most κ·√(N·t²/12) times the length of all masks together; its mean
        t/2·J·Σ mask at most t/2·2N/π times the sum of their lengths.
        """
        mask, random = sqrt(self.n) * self.t / 2, sqrt(n_alike * n_terms)
        length = self.kappa * self.t * sqrt(self.n * UNIFORM_VARIANCE) * random * mask
        length += self.t / 2 * self._all_ones * n_terms * mask
        first = self.tau * self.t * sqrt(UNIFORM_VARIANCE) * random * mask
        first += self.t / 2 * n_terms * self.n * self.t / 2
        return first + self.tau * sqrt(SECRET_VARIANCE) * length

    def bound(
        self, circuit: str, steps: dict[str, float], phase: float, n_primes: int, n_sent: int = 1
    ) -> CircuitBound:
        """The flood that fits over a phase at a level, and what it hides."""
        # Two public-key encryptions of zero go in: the start of the sum, and the sanitiser's own.
        noise = (phase + 2 * self.rounding_coefficient) / self.t + 1
        # What is sent must hold message, noise, flood and the rounding of the last switch.
        modulus, sent = prod(self.primes[:n_primes]), prod(self.primes[:n_sent])
        rounding = ceil(self.rounding_coefficient) if n_sent < n_primes else 0
        room = (sent // 2 - rounding) * (modulus // sent) // self.t - ceil(noise)
        if room < 1:
            raise ParameterError(f"{circuit}: the noise (2^{log2(noise):.0f}) leaves no room")
        flood = Flood.within(n_primes, room, n_sent)
        filled = Fraction(2 * self.t * flood.reach, modulus)
        return CircuitBound(
            circuit,
            {name: log2(value) for name, value in steps.items()},
            log2(noise),
            flood,
            distance_bits=log2(2 * flood.reach) - log2(self.n * noise),
            deviating_bits=-log2(self.n * (1 - filled)),
        )

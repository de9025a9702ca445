"""Static noise bounds: how large the noise can get, from the parameters alone.

The standard canonical-embedding analysis.  A polynomial with independent coefficients of variance
V has canonical norm at most κ·√(N·V), and a sum of N·… independent terms of total variance V has
coefficients at most τ·√V, each except with probability 2^-64 over 2^24 polynomials; canonical
norms multiply, and bound coefficients.  Plaintexts, and the rounding of a modulus switch, count as
uniform: variance t²/12.  Where a plaintext meets fresh noise its worst case √N·t/2 is used instead.

`phase` is message + t·noise, what decryption sees; all bounds are on its size.  Measured phases lie
below them in every test (`tests/he/test_noise.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log, log2, prod, sqrt

from pv4fad.errors import ParameterError
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Flood

FAILURE_BITS = 64
POLYNOMIAL_BITS = 24 + 14  # 2^24 polynomials of 2^14 values in one run
_LN_TAIL = log(2) * (FAILURE_BITS + POLYNOMIAL_BITS + 1)
KAPPA = sqrt(_LN_TAIL)  # |a(ζ)|² is exponential: P(|a(ζ)| > κ√(NV)) = exp(−κ²)
TAU = sqrt(2 * _LN_TAIL)  # P(|x| > τσ) ≤ 2·exp(−τ²/2)
ERROR_VARIANCE = 10.5  # the library's centred binomial, 21 pairs of bits
SECRET_VARIANCE = 2 / 3  # uniform ternary
UNIFORM_VARIANCE = 1 / 12  # of a uniform value, in units of its range

# More than this per ciphertext buys nothing: 2^34 ciphertexts still stay within 2^-30.
BEST_DISTANCE_BITS = 64


@dataclass(frozen=True, eq=False)
class CircuitBound:
    """What a circuit's static analysis promises."""

    circuit: str
    steps: dict[str, float]  # log2 of the phase after each step
    noise_bits: float  # log2 B, the noise before sanitising
    flood: Flood
    distance_bits: float  # −log2 of the statistical distance from uniform, per ciphertext


class NoiseModel:
    """Bounds in one ring."""

    def __init__(self, ring: Ring) -> None:
        self.n = ring.degree
        self.t = ring.plain_modulus
        self.primes = ring.primes
        self.special = 2.0 ** ring.parameters.prime_bits[-1]

    # Canonical norms of single steps.

    @property
    def plain(self) -> float:
        """A plaintext."""
        return KAPPA * self.t * sqrt(self.n * UNIFORM_VARIANCE)

    @property
    def fresh(self) -> float:
        """A fresh encryption under the secret key."""
        return KAPPA * self.t * sqrt(self.n * (ERROR_VARIANCE + UNIFORM_VARIANCE))

    @property
    def rounding(self) -> float:
        """What switching the modulus adds: τ₀ + τ₁·s, both roundings uniform."""
        return self.plain * (1 + KAPPA * sqrt(self.n * SECRET_VARIANCE))

    def relinearisation(self, n_primes: int) -> float:
        """What switching the key adds."""
        digits = KAPPA * sqrt(self.n * UNIFORM_VARIANCE * n_primes) * max(self.primes)
        errors = KAPPA * self.t * sqrt(self.n * ERROR_VARIANCE)
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
        """A coefficient of τ₀ + τ₁·s."""
        return TAU * self.t * sqrt(UNIFORM_VARIANCE * (1 + self.n * SECRET_VARIANCE))

    def masked_rounding_coefficient(self, n_terms: int) -> float:
        """A coefficient of Σ mask·(τ₀ + τ₁·s) over n_terms independent roundings.

        The first part is a sum of independent τ₀ against masks of length at most √N·t/2; in the
        second, (Σ mask·τ₁) has length at most its canonical norm, and s is independent of it.
        """
        roundings = self.t * sqrt(UNIFORM_VARIANCE)
        first = TAU * roundings * sqrt(n_terms * self.n) * self.t / 2
        second = (
            TAU * sqrt(SECRET_VARIANCE) * KAPPA * roundings * sqrt(self.n * n_terms) * self.plain
        )
        return first + second

    def bound(
        self, circuit: str, steps: dict[str, float], phase: float, n_primes: int
    ) -> CircuitBound:
        """The flood that fits over a phase at a level, and what it hides."""
        # Two public-key encryptions of zero go in: the start of the sum, and the sanitiser's own.
        noise = (phase + 2 * self.rounding_coefficient) / self.t + 1
        modulus = prod(self.primes[:n_primes])
        room = (modulus // 2) / prod(self.primes[1:n_primes])  # what one prime can hold
        room = (room - self.rounding_coefficient) * prod(self.primes[1:n_primes]) / self.t - noise
        wanted = log2(self.n * noise) + BEST_DISTANCE_BITS - 1
        if room < 2:
            raise ParameterError(f"{circuit}: the noise (2^{log2(noise):.0f}) leaves no room")
        range_bits = floor(min(log2(room), wanted))
        return CircuitBound(
            circuit,
            {name: log2(value) for name, value in steps.items()},
            log2(noise),
            Flood(n_primes, range_bits),
            range_bits + 1 - log2(self.n * noise),
        )

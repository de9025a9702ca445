"""Noise: exactly the stated distribution, for one bank and for the sum of shares; tails bounded.

Draws come from the operating system, so the tests are random.  Each accepts the right noise except
with a probability below 1e-6, and says what it would notice.
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import exp, log2, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.privacy import noise
from pv4fad.privacy.noise import discrete_laplace, noise_tail_bound, polya_share

ONE_IN_A_MILLION_Z = 5.0  # |z| above this: 6e-7
SCALES = [(Fraction(2), 1), (Fraction(1, 2), 2), (Fraction(1, 4), 5)]  # Δ/ε = 0.5, 4, 20


def laplace_pmf(rate: float, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1)
    return (1 - exp(-rate)) / (1 + exp(-rate)) * np.exp(-rate * np.abs(x))


def share_pmf(rate: float, honest: int, reach: int) -> np.ndarray:
    k = np.arange(1, 4 * reach)
    polya = np.concatenate([[1.0], np.cumprod((k - 1 + 1 / honest) / k * exp(-rate))])
    polya *= (1 - exp(-rate)) ** (1 / honest)
    middle = len(polya) - 1
    return np.convolve(polya, polya[::-1])[middle - reach : middle + reach + 1]


def chi_square_z(draws: np.ndarray, pmf: np.ndarray) -> float:
    """Normal score (Wilson-Hilferty) of the chi-square over cells with 20 or more expected."""
    reach = len(pmf) // 2
    expected = pmf * len(draws)
    used = expected >= 20
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=len(pmf))
    rest = np.array([len(draws) - expected[used].sum(), len(draws) - counts[used].sum()])
    chi2 = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    chi2 += (rest[1] - rest[0]) ** 2 / rest[0]
    freedom = used.sum()
    spread = 2 / (9 * freedom)
    return float(((chi2 / freedom) ** (1 / 3) - (1 - spread)) / sqrt(spread))


def scale_z(draws: np.ndarray, rate: float) -> float:
    """How far the mean |draw| is from that of discrete Laplace noise, in standard deviations."""
    a = exp(-rate)
    mean, variance = 2 * a / (1 - a * a), 2 * a / (1 - a) ** 2
    return float((np.abs(draws).mean() - mean) / sqrt((variance - mean**2) / len(draws)))


@pytest.mark.parametrize(("epsilon", "sensitivity"), SCALES)
@pytest.mark.parametrize("banks", [1, 3, 5])
def test_noise_has_the_stated_scale_and_a_scale_off_by_30_percent_is_rejected(
    epsilon, sensitivity, banks
):
    # 5000 sums.  The score has mean 0 and standard deviation 1 if the scale is right; 21 and 1.5 if
    # Δ/ε is 30 % above, −16 and 0.8 if it is 30 % below: noticed except with 1e-9.
    shares = [polya_share(epsilon, sensitivity, banks, 5000) for _ in range(banks)]
    rate = float(epsilon / sensitivity)
    total = np.sum(shares, axis=0)
    assert abs(scale_z(total, rate)) < ONE_IN_A_MILLION_Z
    assert scale_z(total, rate * 1.3) > ONE_IN_A_MILLION_Z
    assert scale_z(total, rate / 1.3) < -ONE_IN_A_MILLION_Z


@pytest.mark.parametrize(("epsilon", "sensitivity"), SCALES)
def test_single_draws_follow_the_discrete_laplace_distribution(epsilon, sensitivity):
    # 40,000 draws.  The score has mean 0 and standard deviation 1 if all is right; 14 and 1.2 if
    # Δ/ε is off by a tenth; it is above 20 if zero comes twice as often, as with a sign bit.
    draws = discrete_laplace(epsilon, sensitivity, 40_000)
    rate = float(epsilon / sensitivity)
    assert chi_square_z(draws, laplace_pmf(rate, 200)) < ONE_IN_A_MILLION_Z
    assert chi_square_z(draws, laplace_pmf(rate * 1.1, 200)) > ONE_IN_A_MILLION_Z


@pytest.mark.parametrize(("epsilon", "sensitivity"), SCALES)
@pytest.mark.parametrize("honest", [2, 5])
def test_shares_follow_their_distribution_and_add_up_to_discrete_laplace(
    epsilon, sensitivity, honest
):
    rate = float(epsilon / sensitivity)
    shares = polya_share(epsilon, sensitivity, honest, honest * 40_000).reshape(honest, -1)
    assert chi_square_z(shares[0], share_pmf(rate, honest, 200)) < ONE_IN_A_MILLION_Z
    assert chi_square_z(shares.sum(axis=0), laplace_pmf(rate, 200)) < ONE_IN_A_MILLION_Z
    # Without one of the shares it is not: the score is 15 or more, with a standard deviation of 1.
    assert chi_square_z(shares[1:].sum(axis=0), laplace_pmf(rate, 200)) > ONE_IN_A_MILLION_Z


@pytest.mark.parametrize("honest", [1, 4])
def test_noise_is_symmetric(honest):
    # 40,000 draws: P(x > 0) off by 0.02 is noticed with a probability above 99 %.
    draws = polya_share(Fraction(1, 3), 1, honest, 40_000)
    positive, negative = (draws > 0).sum(), (draws < 0).sum()
    assert abs(positive - negative) < ONE_IN_A_MILLION_Z * sqrt(positive + negative)


def test_early_draws_are_like_late_ones():
    # If the order were that of stopping, the first draws would all be zero.
    draws = np.abs(discrete_laplace(Fraction(1, 10), 1, 20_000))
    halves = draws[:10_000].mean() - draws[10_000:].mean()
    assert abs(halves) < ONE_IN_A_MILLION_Z * draws.std() / sqrt(5000)


@pytest.mark.parametrize("honest", [1, 3])
def test_the_draws_of_a_batch_are_independent(honest):
    # Noise that is the same or opposite in two counts leaves their difference or sum exact.  The
    # correlation of all pairs at one distance, or with one mirror, has a score of mean 0 and
    # standard deviation 1, and 20,000 of them stay below 8 except with 1e-8; the score is about
    # 70 if every Pólya draw serves twice.
    n = 20_000
    draws = polya_share(Fraction(1, 10), 1, honest, n)
    spectrum = np.fft.rfft(draws / draws.std(), 2 * n)
    distance, middle = np.arange(1, n // 2), np.arange(n // 2 + 1, 3 * n // 2, 2)
    by_distance = np.fft.irfft(np.abs(spectrum) ** 2)[distance] / np.sqrt(n - distance)
    n_pairs = np.minimum(middle + 1, 2 * n - 1 - middle) / 2
    by_mirror = np.fft.irfft(spectrum**2)[middle] / (2 * np.sqrt(n_pairs))
    assert max(np.abs(by_distance).max(), np.abs(by_mirror).max()) < 8


def test_noise_is_fresh_and_of_the_wanted_length():
    first, second = (polya_share(Fraction(1, 50), 1, 3, 500) for _ in range(2))
    assert first.dtype == np.int64
    assert len(first) == len(second) == 500
    assert not np.array_equal(first, second)
    assert len(discrete_laplace(Fraction(1), 1, 0)) == 0


@given(
    rate=st.fractions(Fraction(1, 10_000), 1000, max_denominator=10**20),
    n_bits=st.sampled_from([64, 128, 192]),
    added=st.sampled_from([0, 1]),
)
def test_digits_of_the_exponential_are_exact(rate, n_bits, added):
    many = Context(prec=600)
    value = many.exp(many.divide(Decimal(rate.numerator), Decimal(rate.denominator)))
    expected = int(many.divide(Decimal(2**n_bits), many.add(value, added)))
    assert noise._exp_digits(rate, n_bits, added) == expected


def test_wide_noise_is_drawn_digit_by_digit():
    # 40,000 draws with Δ/ε = 1000, ten digits.  The score has standard deviation 1, and mean 20 if
    # the scale is a tenth too large.
    draws = discrete_laplace(Fraction(1, 1000), 1, 40_000)
    assert abs(scale_z(draws, 1 / 1000)) < ONE_IN_A_MILLION_Z
    assert scale_z(draws, 1.1 / 1000) > ONE_IN_A_MILLION_Z


def test_a_tie_is_decided_by_the_next_digits(monkeypatch):
    third = noise._digits_of(Fraction(1, 3))
    same, below, above = 0x5555555555555555, 0x5555555555555554, 0x5555555555555556
    words = iter([[below, same, above, same, same], [below], [above], [same], [0]])
    monkeypatch.setattr(noise, "secret_bytes", lambda n: np.array(next(words), "<u8").tobytes())
    assert noise._bernoulli(third, 5).tolist() == [True, True, False, False, True]
    assert next(words, None) is None


def test_a_decision_with_finite_digits_is_exact_too(monkeypatch):
    words = iter([[2**63 - 1, 2**63, 2**63 + 1], [0], [5]])
    monkeypatch.setattr(noise, "secret_bytes", lambda n: np.array(next(words), "<u8").tobytes())
    assert noise._bernoulli(noise._digits_of(Fraction(1, 2)), 3).tolist() == [True, False, False]


def tail(pmf: np.ndarray, x: int) -> float:
    """P(|noise| > x), added up from the small end."""
    reach = len(pmf) // 2
    return float(2 * np.sort(pmf[: max(0, reach - x)]).sum())


@pytest.mark.parametrize(("epsilon", "sensitivity"), SCALES)
@pytest.mark.parametrize(("parties", "honest"), [(1, None), (4, 4), (4, 2), (6, None)])
def test_tail_bound_holds_and_is_less_than_a_sixth_too_large(epsilon, sensitivity, parties, honest):
    rate = float(epsilon / sensitivity)
    bound = noise_tail_bound(
        epsilon,
        sensitivity,
        n_parties=parties,
        honest_parties=honest,
        n_draws=1,
        log2_probability=-40,
    )
    pmf = laplace_pmf(rate, 2000)
    total = pmf
    for _ in range(parties // (honest or 1) - 1):
        total = np.convolve(total, pmf)
    assert 0 < tail(total, bound) <= 2**-40 < tail(total, int(bound * 5 / 6) - 1)


def test_tail_bound_covers_all_sums_of_a_run():
    one, many = (
        noise_tail_bound(
            Fraction(1, 10), 2, n_parties=3, honest_parties=3, n_draws=n, log2_probability=-40
        )
        for n in (1, 800)
    )
    # 800 sums cost log(800)·Δ/ε more.
    assert many - one == pytest.approx(log2(800) * np.log(2) * 20, rel=0.05)
    draws = discrete_laplace(Fraction(1, 10), 2, 20_000)
    assert np.abs(draws).max() <= many


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "honest", "named"),
    [
        (Fraction(0), 1, 1, "epsilon"),
        (Fraction(-1), 1, 1, "epsilon"),
        (Fraction(1001), 1, 1, "epsilon"),
        (Fraction(1), 0, 1, "sensitivity"),
        (Fraction(1, 1000), 11, 1, "drown"),
        (Fraction(1), 1, 0, "honest_parties"),
    ],
)
def test_noise_outside_the_range_is_refused(epsilon, sensitivity, honest, named):
    with pytest.raises(ParameterError, match=named):
        polya_share(epsilon, sensitivity, honest, 1)


def test_tail_bound_of_nothing_is_refused():
    for n_parties, honest, n_draws in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ParameterError, match="at least 1"):
            noise_tail_bound(
                Fraction(1),
                1,
                n_parties=n_parties,
                honest_parties=honest,
                n_draws=n_draws,
                log2_probability=-40,
            )

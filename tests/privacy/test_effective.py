"""The effective ε is the largest loss of the noise that remains; a guess is bounded by it."""

from fractions import Fraction
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.privacy.effective import (
    default_honest_banks,
    effective_epsilon,
    guessing_bound,
    is_weak,
)
from pv4fad.privacy.noise import polya_share

EPSILONS = st.fractions(Fraction(1, 5), 10, max_denominator=100)


def remaining_noise(epsilon: Fraction, sensitivity: int, share: Fraction) -> np.ndarray:
    """log P(x), x = 0 … 100, of the difference of two Pólya(share, α) draws, term by term."""
    rate = float(epsilon / sensitivity)
    k = np.arange(1, 8000)
    polya = np.cumprod(np.append(1.0, (k - 1 + float(share)) / k * exp(-rate)))
    polya *= (1 - exp(-rate)) ** float(share)
    return np.log([polya[: len(polya) - x] @ polya[x:] for x in range(101)])


def splits(total: int, largest: int | None = None):
    """All ways of distributing a change over sums, in which order does not matter."""
    if total == 0:
        yield []
    for first in range(min(total, largest or total), 0, -1):
        yield from ([first, *rest] for rest in splits(total - first, first))


def largest_loss(log_p: np.ndarray, change: int) -> float:
    """Over all values of one sum that changes: max_x |log p(x) − log p(x − change)|."""
    both = np.concatenate([log_p[:0:-1], log_p])
    return float(np.abs(both[change:] - both[:-change]).max())


@pytest.mark.parametrize(
    ("sensitivity", "honest", "known"),
    [(1, 2, "1.7"), (2, 2, "2.3"), (1, 13, "3.6"), (2, 13, "6.1"), (1, 1, "1.0"), (2, 1, "1.0")],
)
def test_the_figures_of_the_specification(sensitivity, honest, known):
    assert f"{effective_epsilon(Fraction(1), sensitivity, honest):.1f}" == known


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 5])
@pytest.mark.parametrize(("honest", "remaining"), [(2, 1), (3, 1), (3, 2), (13, 1), (200, 7)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(5)])
def test_it_is_the_largest_loss_over_all_ways_of_distributing_the_change(
    epsilon, sensitivity, honest, remaining
):
    log_p = remaining_noise(epsilon, sensitivity, Fraction(remaining, honest))
    losses = {
        tuple(split): sum(largest_loss(log_p, change) for change in split)
        for split in splits(sensitivity)
    }
    assert max(losses, key=lambda split: losses[split]) == (1,) * sensitivity
    found = effective_epsilon(epsilon, sensitivity, honest, remaining)
    assert found == pytest.approx(max(losses.values()), rel=1e-9)


def test_it_is_the_loss_of_the_noise_that_a_bank_draws():
    """Of 100,000 draws 65,000 are 0 and 24,000 are ±1: five deviations are 0.04, H = 3 adds 0.4."""
    draws = polya_share(Fraction(1), 1, 2, 100_000)
    zeros, ones = (draws == 0).sum(), (np.abs(draws) == 1).sum() / 2
    deviation = (1 / zeros + 1 / (2 * ones)) ** 0.5
    assert log(zeros / ones) == pytest.approx(
        effective_epsilon(Fraction(1), 1, 2), abs=5 * deviation
    )


@given(EPSILONS, st.integers(1, 20), st.integers(1, 60), st.integers(1, 60))
def test_it_grows_with_honest_banks_and_falls_with_those_that_remain(
    epsilon, sensitivity, honest, remaining
):
    found = effective_epsilon(epsilon, sensitivity, honest, remaining)
    if remaining >= honest:
        assert found == float(epsilon)
        return
    assert float(epsilon) < found < float(epsilon) + sensitivity * log(honest / remaining)
    assert found < effective_epsilon(epsilon, sensitivity, honest + 1, remaining)
    assert found > effective_epsilon(epsilon, sensitivity, honest, remaining + 1)
    same_share = effective_epsilon(epsilon, sensitivity, 3 * honest, 3 * remaining)
    assert found == pytest.approx(same_share, rel=1e-12)


@given(st.integers(1, 1000), EPSILONS, st.integers(1, 20))
def test_noise_of_one_bank_alone_needs_nobody_else(remaining, epsilon, sensitivity):
    assert effective_epsilon(epsilon, sensitivity, 1, remaining) == float(epsilon)
    assert effective_epsilon(epsilon, sensitivity, remaining, remaining) == float(epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**18), Fraction(1, 10_000), Fraction(1000)])
def test_extreme_amounts_are_bounded_too(epsilon):
    found = effective_epsilon(epsilon, 1, 5)
    assert float(epsilon) < found <= float(epsilon) + log(5)


@pytest.mark.parametrize(
    "wrong", [(Fraction(0), 1, 1, 1), (Fraction(1), 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ParameterError):
        effective_epsilon(*wrong)


def test_the_default_is_half_of_the_banks_rounded_up():
    assert [default_honest_banks(n) for n in (1, 2, 3, 4, 25)] == [1, 1, 2, 2, 13]
    with pytest.raises(ParameterError):
        default_honest_banks(0)


def test_a_guess_is_bounded():
    assert guessing_bound(Fraction(1)) == pytest.approx(0.7310585786)
    assert guessing_bound(0.0) == 0.5
    assert guessing_bound("none") == guessing_bound(inf) == 1


@pytest.mark.parametrize(("honest", "remaining"), [(1, 1), (2, 1), (5, 2)])
def test_nobody_guesses_better_from_one_noisy_count(honest, remaining):
    """The best guess between a count of 0 and of 1, both as likely: the likelier one of the two."""
    log_p = remaining_noise(Fraction(1), 1, Fraction(remaining, honest))
    bound = guessing_bound(effective_epsilon(Fraction(1), 1, honest, remaining))
    p = np.exp(np.concatenate([log_p[:0:-1], log_p]))
    right = np.maximum(p[1:], p[:-1]) / (p[1:] + p[:-1])
    assert right.max() == pytest.approx(bound)


def test_a_run_that_claims_more_than_2_is_weak():
    assert [is_weak(Fraction(2)), is_weak(Fraction(201, 100)), is_weak("none")] == [
        False,
        True,
        True,
    ]

"""The audit of ε: close to ε from below with the right noise, above it with half of it."""

from fractions import Fraction

import pytest

from pv4fad.attack.epsilon import audit
from pv4fad.errors import ParameterError
from pv4fad.privacy.noise import discrete_laplace, polya_share

RELEASES = 20_000


def shares(epsilon, sensitivity, n_banks):
    def draw(n):
        return polya_share(epsilon, sensitivity, n_banks, n_banks * n).reshape(-1, n).sum(axis=0)

    return draw


@pytest.mark.parametrize(("sensitivity", "n_banks"), [(1, 1), (2, 1), (2, 3)])
def test_the_right_noise_is_not_below_its_epsilon_and_not_far_above(sensitivity, n_banks):
    """At 99 % confidence the bound exceeds ε by chance once in a hundred, by 0.1 never."""
    epsilon = Fraction(1)
    found = audit(shares(epsilon, sensitivity, n_banks), sensitivity, RELEASES)
    # P is 0.73 against 0.27, or 0.39 against 0.14: a deviation of the bound is 0.02 at most.
    assert 0.8 < found.at_least < 1.1


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_half_of_the_noise_is_found_out(sensitivity):
    found = audit(lambda n: discrete_laplace(Fraction(2), sensitivity, n), sensitivity, RELEASES)
    assert found.at_least > 1.5
    fewer = audit(shares(Fraction(1), sensitivity, 4), sensitivity, RELEASES)
    assert fewer.at_least < 1.1

    def one_of_four(n):
        return polya_share(Fraction(1), sensitivity, 4, n)

    assert audit(one_of_four, sensitivity, RELEASES).at_least > 1.3


def test_noise_that_is_left_out_is_found_out():
    assert audit(lambda n: discrete_laplace(Fraction(1), 1, n) * 0, 1, RELEASES).at_least > 5


def test_few_releases_are_refused():
    with pytest.raises(ParameterError, match="tell nothing"):
        audit(lambda n: discrete_laplace(Fraction(1), 1, n), 1, 10)

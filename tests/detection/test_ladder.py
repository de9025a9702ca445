import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.detection import ladder
from pv4fad.detection.ladder import LabelNoise, label_chance, positive_chance, total_likelihood

RATES = tuple(np.geomspace(0.3, 0.001, 6))


@pytest.mark.parametrize(("rate", "draws"), [(None, 1), (1.0, 1), (0.5, 2)])
def test_the_chance_of_a_label_is_that_of_simulated_leaves(rate, draws):
    # 400,000 leaves: a wrong chance of 0.005 is seen with certainty; false alarm at 5.5 standard
    # deviations, below 1e-7.
    rng, n = np.random.default_rng(1), 400_000
    up, down = np.array([3.0, 0.0, 12.0]), np.array([4.0, 0.0, 3.0])
    found = positive_chance(up, down, LabelNoise(rate, draws))
    for chance, more, less in zip(found, up, down, strict=True):
        leaf = rng.poisson(more, n) - rng.poisson(less, n)
        for _ in range(draws if rate is not None else 0):
            p = 1 - np.exp(-rate)
            leaf += rng.geometric(p, n) - rng.geometric(p, n)
        assert abs((leaf > 0).mean() - chance) < 5.5 * np.sqrt(0.25 / n)


def test_a_label_says_whether_the_odds_exceed_the_rate():
    odds = np.array([0.001, 0.009, 0.011, 0.5])
    chance = label_chance(odds, 0.01, accounts=1e5, payments=5, noise=LabelNoise(None, 1))
    assert (chance > 0.5).tolist() == [False, False, True, True]


@given(st.integers(1, 6), st.floats(0.1, 50), st.floats(1, 30), st.sampled_from([None, 0.1, 1.0]))
@settings(max_examples=20, deadline=None)
def test_the_totals_have_probabilities_that_add_up_to_one(n_trees, accounts, payments, rate):
    odds = np.exp(np.linspace(-8, 3, 5))
    noise = LabelNoise(rate, 1.5)
    likelihoods = [
        total_likelihood(
            total,
            odds,
            rates=RATES[:n_trees],
            accounts=accounts,
            payments=payments,
            noise=noise,
        )
        for total in range(n_trees + 1)
    ]
    assert np.allclose(np.sum(likelihoods, axis=0), 1)


def test_the_most_likely_odds_rise_with_the_total():
    odds = np.exp(np.linspace(-9, 3, 200))
    best = [
        odds[
            total_likelihood(
                total, odds, rates=RATES, accounts=20, payments=5, noise=LabelNoise(1.0, 1)
            ).argmax()
        ]
        for total in range(len(RATES) + 1)
    ]
    assert best == sorted(best)
    assert best[1] < 0.01
    assert best[5] > 0.03


@pytest.mark.parametrize(("rate", "draws"), [(0.01, 1.5), (0.004, 1.5), (0.01, 37)])
def test_with_much_noise_a_coarser_grid_gives_the_same_chances(monkeypatch, rate, draws):
    up, down, noise = (
        np.array([0.0, 5, 60, 200]),
        np.array([3.0, 5, 10, 0]),
        LabelNoise(rate, draws),
    )
    coarse = positive_chance(up, down, noise)
    monkeypatch.setattr(ladder, "_FINE_ENOUGH", np.inf)
    assert np.abs(coarse - positive_chance(up, down, noise)).max() < 1e-4


def test_the_smallest_epsilon_costs_no_more_than_others(monkeypatch):
    sizes = []
    real = np.fft.irfft
    monkeypatch.setattr(np.fft, "irfft", lambda *a, **k: sizes.append(a[1]) or real(*a, **k))
    for rate in (0.1, 1e-4):
        positive_chance(np.array([5.0]), np.array([3.0]), LabelNoise(rate, 37))
    assert sizes[1] <= 2 * sizes[0]

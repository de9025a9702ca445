"""Noise, likelihood, and what counts are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import dlaplace, poisson

from pv4fad.errors import ParameterError
from pv4fad.evidence.cells import n_cells, n_hit_cells
from pv4fad.evidence.log_odds import KindEvidence, _Posterior, _tells
from pv4fad.evidence.noise import CountNoise, log_likelihood

NONE = CountNoise(None)


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("draws", [1, 2, 5])
def test_noise_is_the_convolution_of_its_draws(rate, draws):
    found = CountNoise(rate, draws).probabilities()
    reach = len(found) // 2
    one = dlaplace.pmf(np.arange(-reach, reach + 1), rate)
    expected = np.ones(1)
    for _ in range(draws):
        expected = np.convolve(expected, one)
    middle = len(expected) // 2
    assert np.allclose(found, expected[middle - reach : middle + reach + 1], atol=1e-11)


@given(st.floats(0.05, 3.0), st.floats(0.5, 30.0))
def test_noise_has_its_deviation_also_for_parts_of_draws(rate, draws):
    noise = CountNoise(rate, draws)
    chance = noise.probabilities()
    reach = len(chance) // 2
    variance = chance @ np.arange(-reach, reach + 1) ** 2.0
    assert np.sqrt(variance) == pytest.approx(noise.deviation, rel=1e-6)


@given(st.integers(-60, 300), st.floats(0.05, 250.0), st.floats(0.2, 2.0), st.integers(1, 4))
def test_the_likelihood_is_poisson_and_noise_convolved(count, mean, rate, draws):
    noise = CountNoise(rate, draws)
    chance = noise.probabilities()
    reach = len(chance) // 2
    direct = sum(
        poisson.pmf(count - shift, mean) * chance[shift + reach]
        for shift in range(-reach, reach + 1)
        if count - shift >= 0
    )
    found = log_likelihood(np.array([count]), np.array([mean]), noise)
    assert found.shape == (1, 1)
    assert np.exp(found[0, 0]) == pytest.approx(direct, rel=1e-9, abs=1e-290)


def test_without_noise_the_likelihood_is_poisson():
    counts = np.array([[0, 3], [7, -1]])
    found = log_likelihood(counts, np.array([0.5, 4.0]), NONE)
    assert np.allclose(found[:, :, 0], poisson.logpmf([[0, 7]], [[0.5], [4.0]]))
    assert np.all(found[:, 1, 1] < -600)  # a negative number of accounts


@pytest.mark.parametrize(("rate", "draws"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)])
def test_noise_without_a_rate_is_refused(rate, draws):
    with pytest.raises(ParameterError):
        CountNoise(rate, draws)


def test_the_posterior_of_a_case_by_hand():
    """Three possible numbers of hits, 1, 2 and 4, and n0 = 1: θ is 0, log 2 or log 4; 0 is usual.

    With widths 1, 1.5 and 2, and these likelihoods, the posterior has 1, 3 and 4 parts of 8 if
    the kind tells.
    """
    width = np.array([1.0, 1.5, 2.0]) / 4.5
    likelihood = np.array([1.0, 3.0, 4.0]) / width
    certain = np.log([1.0, 1e-300, 1e-300])
    posterior = _Posterior(
        np.array([1.0, 2.0, 4.0]),
        np.log(likelihood),
        certain,
        per_hit=(1.0, 0.0),
        normal_rows=np.ones(3),
        usual=0.0,
        n_hits=4,
    )
    assert posterior.log_tells == pytest.approx(np.log(8.0))
    assert posterior.log_says_nothing == pytest.approx(np.log(likelihood[0]))
    assert posterior.median(0.99) == pytest.approx(np.log(2.0))  # log 4 has 0.99 / 2 < 1/2
    assert posterior.median(0.60) == pytest.approx(np.log(2.0))  # 0.6 · 7/8 > 1/2
    assert posterior.median(0.55) == -np.inf  # 0.55 · 7/8 < 1/2


def test_how_likely_kinds_tell_in_cases_by_hand():
    """Beta(1, ½): one kind tells in 2 of 3 cases.  Of two kinds none tells in 3 of 15, the one,
    the other in 2 each, both in 8."""
    nothing = np.zeros(1)
    assert _tells(np.log([1.0]), nothing) == pytest.approx([2 / 3])
    assert _tells(np.log([5.0]), nothing) == pytest.approx([10 / 11])
    one, other = 6.0, 0.5
    total = 3 + 2 * one + 2 * other + 8 * one * other
    expected = np.array([2 * one + 8 * one * other, 2 * other + 8 * one * other]) / total
    assert _tells(np.log([one, other]), np.zeros(2)) == pytest.approx(expected)


bayes_factors = st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=3)


@given(bayes_factors, st.integers(0, 2), st.floats(0.0, 20.0), st.floats(-700.0, 0.0))
def test_what_speaks_for_one_kind_speaks_for_all_of_its_stratum(factors, which, more, common):
    """And only the ratio of the likelihoods of a kind matters."""
    before = _tells(np.array(factors), np.zeros(len(factors)))
    raised = np.array(factors)
    raised[which % len(factors)] += more
    after = _tells(raised, np.zeros(len(factors)))
    assert np.all((before >= 0) & (after >= before - 1e-9) & (after <= 1 + 1e-9))
    assert _tells(raised + common, np.full(len(factors), common)) == pytest.approx(after, abs=1e-9)


def test_a_kind_that_cannot_say_nothing_tells():
    assert _tells(np.array([-5.0, 0.0]), np.array([-np.inf, 0.0]))[0] == pytest.approx(1.0)


def rows_and_kept(n_hits=60, n_clean=20_000):
    """One stratum: hits have one row of label 1 each, and nobody else has a row in it."""
    rows = np.zeros((n_cells(2), 2, 2, 3, 2))
    kept = np.zeros(n_cells(2), np.int64)
    hit, clean = (1 * 2 + 1) * 3, n_hit_cells(2) + 3
    kept[hit], kept[clean] = n_hits, n_clean
    rows[hit, 1, 1, 0] = 0.5, 1.0
    rows[clean, 1, 1, 0, 0] = 0.5
    return rows, kept, hit, clean


def evidence(hits, clean_accounts, noise=NONE):
    rows, kept, hit, clean = rows_and_kept()
    counts = np.zeros((n_cells(2), 1), np.int64)
    counts[hit], counts[clean] = hits, clean_accounts
    return KindEvidence.of(counts, kept, rows, noise)


def test_log_odds_come_near_those_of_many_accounts():
    """40 hits with one row of label 1 and half a row of label 0; 300 others with half a row."""
    found = evidence(40, 300).log_odds[1, 1, 0, 0]
    assert found == pytest.approx(np.log(40 / (20 + 150)), abs=0.3)


def test_more_hits_are_more_evidence_and_more_others_are_less():
    by_hits = [evidence(hits, 20).log_odds[1, 1, 0, 0] for hits in (2, 5, 10, 20, 40)]
    by_others = [evidence(10, others).log_odds[1, 1, 0, 0] for others in (0, 5, 50, 500, 5000)]
    assert by_hits == sorted(by_hits)
    assert by_others == sorted(by_others, reverse=True)


def test_a_kind_that_is_as_common_among_hits_as_elsewhere_says_nothing():
    assert evidence(6, 2000).log_odds[1, 1, 0, 0] == -np.inf


@pytest.mark.parametrize("noise", [NONE, CountNoise(0.5, 2.0)])
def test_a_kind_that_all_accounts_are_of_says_nothing(noise):
    assert evidence(60, 20_000, noise).log_odds[1, 1, 0, 0] == -np.inf


def test_only_the_stratum_with_counts_has_evidence():
    found = evidence(40, 300).log_odds
    found[1, 1, 0, 0] = -np.inf
    assert np.all(found == -np.inf)


def test_the_share_is_that_of_rows():
    found = evidence(40, 300).share[1, 1, 0, 0]
    rows = 60 * 1.5 + 20_000 * 0.5
    assert found == pytest.approx((40 * 1.5 + 300 * 0.5) / rows, rel=0.05)


NOISE = CountNoise(0.5, 2.0)


def of_three_kinds(in_hits):
    """The log-odds of three kinds that no account without a hit is of."""
    rows, kept, hit, _ = rows_and_kept()
    counts = np.zeros((n_cells(2), 3), np.int64)
    counts[hit] = in_hits
    return KindEvidence.of(counts, kept, rows, NOISE).log_odds[1, 1, 0]


def test_a_kind_that_tells_makes_the_others_of_its_stratum_likelier():
    """A few hits are no evidence where the other kinds say nothing, and are where they tell."""
    assert of_three_kinds((7, 0, 0))[0] == -np.inf
    assert of_three_kinds((7, 30, 0))[0] > 0
    assert of_three_kinds((7, 30, 20))[0] > 0
    assert of_three_kinds((0, 30, 20))[0] == -np.inf  # but nothing stays nothing


def test_kinds_have_their_own_log_odds():
    found = of_three_kinds((10, 20, 40))
    assert found[0] < found[1] < found[2]


def test_pure_noise_is_hardly_ever_evidence_and_signal_mostly_is():
    """Of 100 strata with three kinds each: fewer than 20 have a kind that stands out if there are
    no accounts, and of kinds with 25 hits 95 % stand out.  At rates of 6 % and 100 %, false
    alarms are below 1e-4."""
    rows, kept, hit, _ = rows_and_kept()
    rng = np.random.default_rng(3)
    alpha = np.exp(-0.5)
    drawn = rng.negative_binomial(2, 1 - alpha, (100, 2, n_cells(2), 3))
    nothing, something = [], []
    for one in (drawn[:, 0] - drawn[:, 1]).astype(np.int64):
        nothing.append(KindEvidence.of(one, kept, rows, NOISE).log_odds[1, 1, 0])
        one[hit] += 25
        something.append(KindEvidence.of(one, kept, rows, NOISE).log_odds[1, 1, 0])
    assert np.isfinite(nothing).any(axis=1).sum() < 20
    assert np.isfinite(something).mean() > 0.95

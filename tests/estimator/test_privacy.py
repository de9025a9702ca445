"""With ε every count carries noise of the stated scale, and nothing else of the data is kept."""

from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest

from pv4fad.errors import DataError, ParameterError
from pv4fad.estimator import Categorical, Numeric, RandomDecisionForestClassifier
from pv4fad.estimator.trees import leaf_counts

ONE_IN_A_MILLION_Z = 5.0  # |z| above this: 6e-7
DOMAINS = [Numeric(-3, 3), Numeric(0, 1), Categorical(range(6))]
N_ROWS, N_CLASSES, N_TREES = 400, 3, 50


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    rows = np.column_stack(
        [rng.normal(size=N_ROWS), rng.random(N_ROWS), rng.integers(8, size=N_ROWS)]
    )
    return rows, rng.integers(N_CLASSES, size=N_ROWS)


def private(epsilon, **changed):
    return RandomDecisionForestClassifier(
        **{"n_trees": N_TREES, "max_depth": 6, "epsilon": epsilon, "domains": DOMAINS}
        | {"random_state": 5}
        | changed
    )


def exact_counts(forest, rows, label):
    codes = [domain.encode(rows[:, at]) for at, domain in enumerate(DOMAINS)]
    return leaf_counts(forest.trees_, codes, label, N_CLASSES)


def noise_of(forest, rows, label):
    pairs = zip(forest.counts_, exact_counts(forest, rows, label), strict=True)
    return [noisy - exact for noisy, exact in pairs]


def scale_z(noise: np.ndarray, rate: float) -> float:
    """How far the mean |noise| is from that of discrete Laplace noise, in standard deviations."""
    a = exp(-rate)
    mean, variance = 2 * a / (1 - a * a), 2 * a / (1 - a) ** 2
    return float((np.abs(noise).mean() - mean) / sqrt((variance - mean**2) / noise.size))


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_every_count_has_noise_of_scale_trees_over_epsilon(data, epsilon):
    # 8000 counts and more.  The score has mean 0 and standard deviation 1 if the scale is right; 26
    # and 1.4 if it is 30 % above, −20 and 0.8 if it is 30 % below: noticed except with 1e-9.
    forest = private(epsilon).fit(*data)
    noise = np.concatenate([part.ravel() for part in noise_of(forest, *data)])
    rate = epsilon / N_TREES
    assert noise.size > 8000
    assert abs(scale_z(noise, rate)) < ONE_IN_A_MILLION_Z
    assert scale_z(noise, rate * 1.3) > ONE_IN_A_MILLION_Z
    assert scale_z(noise, rate / 1.3) < -ONE_IN_A_MILLION_Z
    assert abs(noise.mean()) < ONE_IN_A_MILLION_Z * noise.std() / sqrt(noise.size)


def test_leaves_without_rows_have_as_much_noise(data):
    # 2000 counts of 0: 30 % less noise gives a score of −10 with a deviation of 0.8.
    forest = private(1).fit(*data)
    exact = np.concatenate([part.ravel() for part in exact_counts(forest, *data)])
    noise = np.concatenate([part.ravel() for part in noise_of(forest, *data)])
    assert (exact == 0).sum() > 2000
    assert abs(scale_z(noise[exact == 0], 1 / N_TREES)) < ONE_IN_A_MILLION_Z


def test_noise_of_one_tree_says_nothing_about_that_of_another(data):
    # Correlation of about 4000 pairs: deviation 0.016.  Noise drawn once for all trees has 1.
    noise = [part.ravel() for part in noise_of(private(1).fit(*data), *data)]
    pairs = [(a, b) for a, b in zip(noise[::2], noise[1::2], strict=True) if a.size == b.size]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    assert first.size > 1000
    assert abs(np.corrcoef(first, second)[0, 1]) < 2 * ONE_IN_A_MILLION_Z / sqrt(first.size)


def test_random_state_fixes_the_structure_but_never_the_noise(data):
    first, second = (private(1).fit(*data) for _ in range(2))
    for a, b in zip(first.trees_, second.trees_, strict=True):
        assert all(map(np.array_equal, a.branch_of, b.branch_of))
    # Each of 50 trees has over 100 counts: all equal by chance with probability below 1e-300.
    for a, b in zip(first.counts_, second.counts_, strict=True):
        assert not np.array_equal(a, b)


def test_without_epsilon_the_counts_are_exact(data):
    forest = private(None).fit(*data)
    assert all(not part.any() for part in noise_of(forest, *data))


def test_a_private_forest_is_what_follows_from_its_noisy_counts(data, monkeypatch):
    """Other data, and noise that leads to the same noisy counts: the same forest."""
    rows, label = data
    forest = private(1).fit(rows, label)
    few = rows[:3], np.arange(N_CLASSES)
    noise = np.concatenate([part.ravel() for part in noise_of(forest, *few)])
    monkeypatch.setattr("pv4fad.estimator.classifier.discrete_laplace", lambda *_: noise)
    again = private(1).fit(*few)
    assert again.predict_proba(rows) == pytest.approx(forest.predict_proba(rows))


def test_domains_must_be_declared(data):
    with pytest.raises(ParameterError, match="domains of all features must be declared"):
        private(1, domains=None).fit(*data)
    private(None, domains=None).fit(*data)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 1001}, "epsilon"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": Fraction(1, 201)}, "lower n_trees"),
        ({"classes": []}, "one class at least"),
        ({"n_trees": 0}, "n_trees"),
        ({"max_depth": 0}, "max_depth"),
        ({"max_depth": 17}, "max_depth"),
        ({"max_branches": 1}, "max_branches"),
        ({"vote": "loudest"}, "vote"),
    ],
)
def test_parameters_out_of_range_are_refused(data, changed, said):
    with pytest.raises(ParameterError, match=said):
        private(**{"epsilon": 1} | changed).fit(*data)


@pytest.mark.parametrize("vote", ["majority", "log_odds"])
def test_parameters_that_are_set_later_wait_for_the_next_fit(data, vote):
    forest = private(1, vote=vote).fit(*data)
    before = forest.predict_proba(data[0])
    forest.set_params(vote="majority" if vote == "log_odds" else "log_odds", n_trees=3)
    assert np.array_equal(forest.predict_proba(data[0]), before)


def test_declared_classes_are_all_there_is(data):
    rows, label = data
    forest = private(1, classes=[0, 1, 2, 9]).fit(rows, label)
    assert forest.classes_.tolist() == [0, 1, 2, 9]
    assert forest.predict_proba(rows).shape == (N_ROWS, 4)
    with pytest.raises(DataError, match="not among the declared classes"):
        private(1, classes=[0, 1]).fit(rows, label)

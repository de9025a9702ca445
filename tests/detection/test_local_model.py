"""The local model: equal to scikit-learn's trees, honest about its rows, checked when read."""

from dataclasses import replace

import numpy as np
import pytest

from pv4fad.detection import fitting, tree_ensemble
from pv4fad.detection.fitting import KINDS, as_arrays, fit_local_model, without_missing
from pv4fad.detection.local_model import (
    LocalModel,
    LocalModelRecord,
    local_reasons,
    usual_values,
)
from pv4fad.detection.tree_ensemble import LEAF, TreeEnsemble, largest_float32_not_above
from pv4fad.errors import DataError, StoreError
from pv4fad.store.records import from_bytes, to_bytes

NAMES = tuple(f"f{number}" for number in range(6))


def rows(n: int, seed: int, missing: float = 0.0):
    """Features, labels of which 4 % are 1 and follow from two features, and groups."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, len(NAMES))).astype(np.float32)
    features[:, 2] = np.rint(features[:, 2])
    labels = (features[:, 0] + features[:, 2] + 0.3 * rng.normal(size=n) > 2.7).astype(np.int8)
    features[rng.random(features.shape) < missing] = np.nan
    return features, labels, rng.integers(0, n // 4, n)


@pytest.fixture(scope="module")
def fitted():
    features, labels, groups = rows(3000, 1, missing=0.05)
    return features, labels, *fit(features, labels, groups, seed=3)


def fit(features, labels, groups, seed=1, names=NAMES):
    """The model, and honest scores of all rows."""
    found = fit_local_model(features, names, labels, groups, seed=seed)
    return found.model, found.honest_scores(features)


@pytest.mark.parametrize(("kind", "share"), KINDS, ids=["best", "extremely randomised"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_trees_equal_those_of_scikit_learn(kind, share, missing):
    features, labels, _ = rows(3000, 2, missing)
    known, has_missing = without_missing(features)
    for state in range(8):
        fitted = kind(max_features=share, random_state=state).fit(known, labels)
        expected = fitted.predict_proba(known)[:, 1]
        np.testing.assert_array_equal(as_arrays(fitted, has_missing).total(features), expected)


@pytest.mark.parametrize("n_missing", [1, 2, 3, 30])
@pytest.mark.parametrize(("kind", "share"), KINDS, ids=["best", "extremely randomised"])
def test_trees_describe_how_training_rows_with_missing_values_went(kind, share, n_missing):
    # Given to scikit-learn 1.8 as NaN, a few rows that miss everything spoil thresholds.
    features, labels, _ = rows(600, 3)
    features[:n_missing] = np.nan
    labels[:n_missing] = 1
    known, has_missing = without_missing(features)
    for state in range(8):
        fitted = kind(min_samples_leaf=2, max_features=share, random_state=state)
        tree = as_arrays(fitted.fit(known, labels), has_missing)
        # What leaves say of their training rows adds up to these.
        assert tree.total(features).sum() == pytest.approx(labels.sum())


def test_what_is_missing_is_lower_than_all_values():
    nan = np.nan
    columns = ([1, 3, nan], [nan, nan, nan], [7, nan, 7], [1e10, 1e10, nan], [0, 0, nan])
    features = np.array([*columns, [3e38, -3e38, nan], [5, 6, 7]], np.float32).T
    known, has_missing = without_missing(features)
    assert has_missing.tolist() == [True] * 6 + [False]
    is_missing = np.isnan(features)
    np.testing.assert_array_equal(known[~is_missing], features[~is_missing])
    assert known[2, 0] == -1
    for column in (0, 2, 3, 4, 5):
        missing = is_missing[:, column]
        assert np.isfinite(known[:, column]).all()
        assert (known[missing, column] < known[~missing, column].min()).all()


_SMALL = {
    "two features": lambda values: values[:, :2],
    "one feature": lambda values: values[:, :1],
    "a constant feature": lambda values: values * [1, 0, 1],
    "a feature that is never known": lambda values: values * [1, np.nan, 1],
    "half of all values": lambda values: np.where(
        np.arange(900).reshape(300, 3) % 2, values, np.nan
    ),
    "a missing value tells": lambda values: np.where(values[:, :1] > 3, np.nan, values[:, 1:]),
}


@pytest.mark.parametrize("n_anomalies", [1, 6])
@pytest.mark.parametrize("change", _SMALL.values(), ids=_SMALL)
def test_small_tables_with_few_anomalies_and_poor_features(change, n_anomalies):
    rng = np.random.default_rng(11)
    labels = (np.arange(300) < n_anomalies).astype(np.int8)
    values = np.clip(rng.normal(size=(300, 3)), -2, 2)
    values[:, 0] += 6 * labels
    features = change(values).astype(np.float32)
    names = tuple("abc")[: features.shape[1]]
    model, scores = fit(features, labels, np.arange(300), names=names)
    assert np.isfinite(scores).all()
    assert _ranking(model.score(features), labels) > 0.9
    usual = usual_values(features)
    assert np.isfinite(usual).all()
    assert len(local_reasons(model, features[:2], usual)) == 2


def test_scores_without_a_feature_are_to_the_bit_those_of_rows_that_have_its_usual_value(fitted):
    features, _, model, _ = fitted
    usual, some = usual_values(features), features[:250]
    found = model.scores_without(some, usual)
    for column, value in enumerate(usual):
        changed = some.copy()
        changed[:, column] = value
        np.testing.assert_array_equal(found[:, column], model.score(changed))
    assert (found != model.score(some)[:, np.newaxis]).mean() > 0.1
    assert np.isnan(some).any()
    assert model.scores_without(some[:0], usual).shape == (0, len(usual))


def test_features_that_tell_nothing_give_nearly_the_same_score_to_all():
    labels = (np.arange(300) < 5).astype(np.int8)
    for value in (1.0, np.nan):
        features = np.full((300, 2), value, np.float32)
        model, _ = fit(features, labels, np.arange(300), names=("a", "b"))
        assert len(set(model.score(features).tolist())) == 1
        # Log-odds of 5 in 300 are -4.1.
        assert -5 < model.score(features)[0] < -3


def test_thresholds_keep_their_meaning_as_float32():
    rng = np.random.default_rng(4)
    values = rng.normal(size=2000).astype(np.float32)
    near = values.astype(np.float64) + rng.choice([-1e-12, 0.0, 1e-12], 2000)
    np.testing.assert_array_equal(values <= largest_float32_not_above(near), values <= near)
    extreme = np.array([np.inf, 1e300, -1e300])
    assert largest_float32_not_above(extreme).tolist() == [
        np.inf,
        float(np.finfo(np.float32).max),
        -np.inf,
    ]


def test_scores_are_log_odds_of_the_mixture_of_all_rows(fitted):
    model = fitted[2]
    rest, rest_labels, _ = rows(20_000, 7, missing=0.05)
    odds = np.exp(model.score(rest).astype(np.float64))
    # Calibration to a factor of 1.5: forgetting to undo the sampling would make it wrong by far
    # more in `test_the_sampling_of_normal_rows_is_undone`.
    assert 1 / 1.5 < (odds / (1 + odds)).sum() / rest_labels.sum() < 1.5


def test_the_sampling_of_normal_rows_is_undone(monkeypatch):
    features, labels, groups = rows(2000, 8)
    model_of = {}
    for least in (100, 2000):
        monkeypatch.setattr(fitting, "LEAST_NORMAL", least)
        monkeypatch.setattr(fitting, "NORMAL_PER_ANOMALY", 1)
        model_of[least], _ = fit(features, labels, groups)
    n_anomalies, n_normal = int(labels.sum()), int((labels == 0).sum())
    # A bag has all anomalies outside of a quarter of the groups, and all normal rows or 100.
    assert model_of[2000].base == pytest.approx(0.0, abs=1e-9)
    in_bags = 100 / (n_anomalies * 3 / 4)
    assert model_of[100].base == pytest.approx(np.log(in_bags / (n_normal / n_anomalies)), abs=1e-6)


def test_honest_scores_rank_as_well_as_scores_of_new_rows_and_no_better(fitted):
    features, labels, model, honest = fitted
    new, new_labels, _ = rows(6000, 9, missing=0.05)
    in_sample = _ranking(model.score(features), labels)
    # With 120 anomalies the area under the curve has a standard deviation of about 0.01, and a
    # quarter of the trees, grown on three quarters of the rows, rank a little worse than all.
    assert _ranking(honest, labels) == pytest.approx(
        _ranking(model.score(new), new_labels), abs=0.04
    )
    assert in_sample > _ranking(honest, labels)


def test_a_row_s_own_group_does_not_teach_its_honest_score():
    # Labels that only the group explains: honest scores cannot rank them.  With 120 of 600
    # groups of label 1 the area under the curve has a standard deviation of about 0.03.
    rng = np.random.default_rng(10)
    groups = np.repeat(np.arange(600), 3)
    labels = (groups % 5 == 0).astype(np.int8)
    features = np.repeat(rng.normal(size=(600, 6)), 3, axis=0).astype(np.float32)
    model, honest = fit(features, labels, groups)
    assert _ranking(model.score(features), labels) > 0.95
    assert abs(_ranking(honest, labels) - 0.5) < 0.15


def test_labels_of_a_group_change_nothing_about_the_honest_scores_of_its_rows():
    # But for the log-odds that are added to all scores: they count the anomalies of all rows.
    features, labels, groups = rows(400, 12)
    changed = labels.copy()
    own = groups == groups[np.flatnonzero(labels == 1)[0]]
    other = own & (labels == 0)
    changed[np.flatnonzero(other)[:1]] = 1
    before, after = (
        fit_local_model(features, NAMES, one, groups, seed=1) for one in (labels, changed)
    )
    scores = [one.honest_scores(features)[own] - one.model.base for one in (before, after)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
    others = [one.honest_scores(features)[~own] - one.model.base for one in (before, after)]
    assert not np.allclose(others[0], others[1])


def test_every_row_is_left_out_in_every_round():
    features, labels, groups = rows(400, 13)
    found = fit_local_model(features, NAMES, labels, groups, seed=1)
    left_out = [bag.part_of[found._group_of] == bag.left_out for bag in found._bags]
    assert (np.sum(left_out, axis=0) == fitting.ROUNDS).all()
    some = np.array([3, 3, 399, 0])
    np.testing.assert_array_equal(
        found.honest_scores(features, some), found.honest_scores(features)[some]
    )


def _ranking(scores: np.ndarray, labels: np.ndarray) -> float:
    """The probability that a row of label 1 is above one of label 0 (area under the ROC curve)."""
    normal = np.sort(scores[labels == 0])
    places = [np.searchsorted(normal, scores[labels == 1], side) for side in ("left", "right")]
    return float(np.mean(places) / len(normal))


def test_equal_seeds_give_equal_models():
    features, labels, groups = rows(400, 1)
    (one, scores), (again, same), (other, _) = (
        fit(features, labels, groups, seed) for seed in (3, 3, 4)
    )
    assert one.to_bytes() == again.to_bytes() != other.to_bytes()
    np.testing.assert_array_equal(scores, same)


def test_the_number_of_threads_changes_nothing(monkeypatch, fitted):
    features, labels, groups = rows(3000, 1, missing=0.05)
    monkeypatch.setattr(fitting, "available_cores", lambda: 1)
    model, honest = fit(features, labels, groups, seed=3)
    assert model.to_bytes() == fitted[2].to_bytes()
    np.testing.assert_array_equal(honest, fitted[3])


def test_a_stored_model_scores_identically(fitted):
    features, _, model, _ = fitted
    read = LocalModel.from_bytes(model.to_bytes())
    assert read.names == NAMES
    np.testing.assert_array_equal(read.score(features), model.score(features))
    assert read.to_bytes() == model.to_bytes()


def test_scores_of_a_row_do_not_depend_on_the_other_rows(fitted, monkeypatch):
    features, _, model, _ = fitted
    together = model.score(features)
    alone = np.concatenate([model.score(features[n : n + 1]) for n in range(20)])
    np.testing.assert_array_equal(alone, together[:20])
    np.testing.assert_array_equal(model.trees.total(features[:0]), [])
    few = model.trees.total(features[:900])
    monkeypatch.setattr(tree_ensemble, "_FEW_ROWS", -1)  # tree by tree
    np.testing.assert_array_equal(model.trees.total(features[:900]), few)
    np.testing.assert_array_equal(model.score(features), together)
    monkeypatch.setattr(tree_ensemble, "_ROWS_AT_ONCE", 700)  # in threads
    np.testing.assert_array_equal(model.score(features), together)


def test_anomalies_only_all_have_the_same_score():
    features, _, groups = rows(100, 1)
    model, scores = fit(features, np.ones(100, np.int8), groups)
    expected = np.log(100.5 / 0.5)
    for given in (model.score(features), LocalModel.from_bytes(model.to_bytes()).score(features)):
        np.testing.assert_allclose(given, expected, rtol=1e-6)
    np.testing.assert_array_equal(scores, model.score(features))


@pytest.mark.parametrize("n_groups", [1, 2])
def test_fewer_groups_than_parts_are_no_failure(n_groups):
    features, labels, _ = rows(400, 1)
    groups = np.arange(400) % n_groups
    model, scores = fit(features, labels, groups)
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) == 1 if n_groups == 1 else len(set(scores.tolist())) > 10
    assert _ranking(model.score(features), labels) > 0.9


def test_anomalies_of_a_single_group_have_a_constant_honest_score():
    features, labels, _ = rows(400, 1)
    groups = np.where(labels == 1, 0, 1 + np.arange(400) % 7)
    model, scores = fit(features, labels, groups)
    assert len(set(scores[labels == 1].tolist())) == 1
    assert _ranking(model.score(features), labels) > 0.9


def test_no_rows_score_to_nothing(fitted):
    assert fitted[2].score(np.empty((0, 6), np.float32)).shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": NAMES[:5]}, "6.*5 names"),
        ({"labels": np.zeros(99, np.int8)}, "99 labels"),
        ({"labels": np.full(100, 2, np.int8)}, "0 and 1"),
        ({"labels": np.zeros(100, np.int8)}, "no row has label 1"),
        ({"features": np.full((100, 6), np.inf, np.float32)}, "infinite"),
        (
            {
                "features": np.empty((0, 6), np.float32),
                "labels": np.empty(0, np.int8),
                "groups": np.empty(0, np.int64),
            },
            "no rows",
        ),
    ],
)
def test_unfit_input_is_refused(change, message):
    features, labels, groups = rows(100, 1)
    given = {"features": features, "names": NAMES, "labels": labels, "groups": groups} | change
    with pytest.raises(DataError, match=message):
        fit_local_model(**given, seed=1)


def test_rows_of_another_width_are_refused(fitted):
    with pytest.raises(DataError, match="6 columns"):
        fitted[2].score(np.zeros((3, 5), np.float32))


# As a record.


def test_truncated_and_foreign_bytes_are_refused(fitted):
    data = fitted[2].to_bytes()
    for broken in (b"", b"PK\x03\x04 another file", data[:6], data[:30], data[:-1], data + b"\0"):
        with pytest.raises(StoreError, match="damaged"):
            LocalModel.from_bytes(broken)


def test_stored_arrays_that_are_no_trees_are_refused(fitted):
    stored = from_bytes(LocalModelRecord, fitted[2].to_bytes())
    with pytest.raises(DataError, match="tests none of the 2 features"):
        LocalModel.from_bytes(to_bytes(replace(stored, names=("a", "b"))))


# Trees.


def tree(feature: list[int], **changes: object) -> TreeEnsemble:
    n = len(feature)
    arrays = {
        "n_nodes": np.array([n], np.int32),
        "feature": np.array(feature, np.int16),
        "threshold": np.zeros(n, np.float32),
        "missing_right": np.zeros(n, bool),
        "value": np.arange(n, dtype=np.float64),
    }
    return TreeEnsemble(2, **(arrays | changes))


@pytest.mark.parametrize("few", [-1, 1000])
def test_a_tree_by_hand(monkeypatch, few):
    monkeypatch.setattr(tree_ensemble, "_FEW_ROWS", few)
    # 0 tests column 0: left is 1, which tests column 1 (children 3, 4); right is 2, a leaf.
    by_hand = tree([0, 1, LEAF, LEAF, LEAF], missing_right=np.array([1, 0, 0, 1, 0], bool))
    nan = np.nan
    table = [[0, 0], [-1, 1], [1, 0], [nan, 0], [-1, nan], [np.inf, 0], [-np.inf, np.inf]]
    assert by_hand.total(np.array(table, np.float32)).tolist() == [3, 4, 2, 2, 3, 2, 4]


@pytest.mark.parametrize(
    ("feature", "changes", "message"),
    [
        ([0, LEAF, LEAF], {"n_nodes": np.array([5], np.int32)}, "length"),
        ([0, LEAF, LEAF], {"value": np.zeros(2)}, "length"),
        ([0, LEAF], {}, "odd number"),
        ([0, LEAF, LEAF], {"n_nodes": np.array([3, 0], np.int32)}, "odd number"),
        ([0, 0, LEAF], {}, "do not make up a tree"),
        ([LEAF, LEAF, LEAF], {}, "do not make up a tree"),
        ([LEAF, 0, LEAF], {}, "do not make up a tree"),
        ([2, LEAF, LEAF], {}, "none of the 2 features"),
        ([-2, LEAF, LEAF], {}, "none of the 2 features"),
        ([0, LEAF, LEAF], {"threshold": np.array([np.nan, 0, 0], np.float32)}, "not a number"),
        ([0, LEAF, LEAF], {"value": np.array([0, np.inf, 0])}, "not a number"),
        ([0, *[0, LEAF] * 64, LEAF, LEAF], {}, "deeper than 64"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(feature, changes, message):
    with pytest.raises(DataError, match=message):
        tree(feature, **changes)

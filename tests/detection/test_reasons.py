"""Reasons of an alert: the features without which the local score would be lower, and no others."""

import numpy as np
import pytest

from pv4fad.detection.local_model import local_reasons, usual_values


class Linear:
    """A local model whose score falls by weight·(value − usual value)."""

    names = ("amount", "hour", "delay", "ratio", "share")
    weights = np.array([1.0, -1.0, 0.5, 2.0, 0.0], np.float32)

    def score(self, features: np.ndarray) -> np.ndarray:
        return np.nan_to_num(features) @ self.weights

    def scores_without(self, features: np.ndarray, usual: np.ndarray) -> np.ndarray:
        return self.score(features)[:, np.newaxis] - self.weights * (features - usual)


USUAL = np.array([10, 12, 0, 1, 5], np.float32)


def of(*row: float, **options) -> list[tuple[str, float, float]]:
    (found,) = local_reasons(Linear(), np.array([row], np.float32), USUAL, **options)
    return found


def test_a_usual_payment_has_no_reasons():
    assert of(*USUAL) == []


def test_the_strongest_reason_comes_first_and_each_names_value_and_usual_value():
    # Falls of 1, of 4 (an hour that is lower by 4), of 1.5, of 0; the last feature has no weight.
    assert of(11, 8, 3, 1, 900) == [
        ("hour", 8, 12), ("delay", 3, 0), ("amount", 11, 10),
    ]  # fmt: skip
    assert of(11, 8, 3, 1, 900, most=1) == [("hour", 8, 12)]


def test_what_makes_a_payment_less_suspicious_is_no_reason():
    assert of(5, 20, 0, 1, 5) == []


def test_a_fall_of_less_than_a_tenth_of_the_log_odds_is_no_reason():
    assert of(10.09, 12, 0, 1, 5) == []
    assert of(10.11, 12, 0, 1, 5) == [("amount", pytest.approx(10.11), 10)]


def test_every_payment_has_its_own():
    rows = np.array([USUAL, USUAL, USUAL])
    rows[1, 0] += 3
    found = local_reasons(Linear(), rows, USUAL)
    assert [len(one) for one in found] == [0, 1, 0]
    assert local_reasons(Linear(), rows[:0], USUAL) == []


def test_features_are_looked_at_and_not_changed():
    rows = np.tile(USUAL + 1, (2, 1))
    before = rows.copy()
    local_reasons(Linear(), rows, USUAL)
    assert np.array_equal(rows, before)


@pytest.mark.filterwarnings("error")
def test_usual_is_the_median_of_what_is_known_and_0_where_nothing_ever_is():
    nan = np.nan
    rows = np.array([[1, nan, nan], [2, 7, nan], [9, nan, nan]], np.float32)
    assert usual_values(rows).tolist() == [2, 7, 0]
    assert usual_values(rows).dtype == np.float32

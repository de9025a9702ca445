"""The audit of ε: close to ε from below with the right noise, above it with too little.

The bound is above ε by chance once in a million times; with the right noise it is 0.1 below on
average, with a deviation of 0.02.
"""

from fractions import Fraction

import numpy as np
import pytest
from tests.kit.class_world import make_class_world
from tests.kit.world import make_world

import pv4fad.protocol.count.bank as count_bank
from pv4fad.attack.epsilon import audit, change_of_a_record
from pv4fad.errors import ParameterError
from pv4fad.privacy.noise import polya_share
from pv4fad.protocol.parameters import RunParameters

ONE = Fraction(1)


def run_like(**options) -> RunParameters:
    return make_class_world(n_banks=3, epsilon=ONE, **{"honest_banks": 2} | options).parameters


@pytest.mark.parametrize("options", [{}, {"counted": "coarse"}, {"honest_banks": 1}])
def test_the_right_noise_is_not_below_its_epsilon_and_not_far_above(options):
    found = audit(run_like(**options))
    assert found.n == 100_000
    assert found.within_claim
    assert found.found > 0.85


def test_half_of_the_noise_is_found_out(monkeypatch):
    monkeypatch.setattr(
        count_bank, "polya_share", lambda epsilon, *rest: polya_share(2 * epsilon, *rest)
    )
    found = audit(run_like())
    assert found.within_claim is False
    assert found.found > 1.5


def test_shares_for_more_banks_than_are_relied_on_are_found_out(monkeypatch):
    def for_all_banks(epsilon, sensitivity, honest, n):
        return polya_share(epsilon, sensitivity, honest + 2, n)

    monkeypatch.setattr(count_bank, "polya_share", for_all_banks)
    assert audit(run_like()).within_claim is False


def test_noise_for_half_of_the_change_is_found_out(monkeypatch):
    """Two sums that a record moves, and noise as if it moved one."""
    monkeypatch.setattr(RunParameters, "sensitivity", 1)
    found = audit(run_like())
    assert found.within_claim is False
    assert found.found > 1.5


def test_noise_that_is_left_out_is_found_out(monkeypatch):
    monkeypatch.setattr(count_bank, "polya_share", lambda *given: np.zeros(given[-1], np.int64))
    assert audit(run_like(), 20_000).found > 5


@pytest.mark.parametrize("n_sets", [1, 2])
def test_the_change_of_a_record_is_the_sensitivity_of_the_run(n_sets):
    options = [
        {"counted": one, "absent": two}
        for one in ("fine", "coarse")
        for two in ("class", "ordinary")
    ]
    runs = [run_like(**one) for one in options]
    runs.append(make_world(model="released", n_sets=n_sets, bound=3).parameters)
    for run in runs:
        assert np.abs(change_of_a_record(run)).sum() == run.sensitivity


def test_few_releases_are_refused():
    with pytest.raises(ParameterError, match="tell nothing"):
        audit(run_like(), 10)

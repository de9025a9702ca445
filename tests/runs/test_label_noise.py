"""The combiners are told the noise that the banks add."""

import numpy as np
import pytest
from tests.protocol.world import make_world

from pv4fad.parties.bank_release import draw_noise
from pv4fad.protocol.parameters import RunParameters
from pv4fad.runs.combining import label_noise, noise_of

N_DRAWS = 20_000


@pytest.fixture(scope="module", params=[1, 2], ids=["one set", "two sets"])
def quiet(request) -> RunParameters:
    return make_world(seed=1, n_banks=2, mode="mixed", n_sets=request.param).parameters


def noisy(quiet: RunParameters, noise: str, honest_banks: int) -> RunParameters:
    fields = {name: getattr(quiet, name) for name in RunParameters.model_fields}
    return RunParameters(**fields | {"epsilon": "1", "noise": noise, "honest_banks": honest_banks})


@pytest.mark.parametrize(
    ("noise", "honest"), [("per-bank", 1), ("distributed", 1), ("distributed", 2)]
)
def test_it_has_the_deviation_of_the_noise_in_leaves(quiet, noise, honest):
    """Two and more banks' draws per sum; the rest of a group has the noise of all its sums.

    The variance of discrete Laplace draws is estimated to 1.6 %; off by 30 % is never accepted.
    """
    run = noisy(quiet, noise, honest)
    sizes = run.sizes
    drawn = np.concatenate(
        [
            sum(draw_noise(run) for _ in run.banks).reshape(sizes.n_groups, sizes.n_sets)
            for _ in range(-(-N_DRAWS // sizes.n_groups))
        ]
    )
    of_a_set, of_the_rest = drawn[:, 0].var(), drawn.sum(axis=1).var()
    assert noise_of(run).deviation ** 2 == pytest.approx((of_a_set + of_the_rest) / 2, rel=0.12)


def test_the_noise_of_the_study_is_that_of_runs_where_all_banks_are_honest(quiet):
    everybody, nobody = noisy(quiet, "distributed", 2), noisy(quiet, "distributed", 1)
    for run, draws in ((everybody, 1), (nobody, 2), (noisy(quiet, "per-bank", 1), 2)):
        expected = label_noise(run.exact_epsilon, run.bound, run.sizes, draws)
        assert noise_of(run) == expected


def test_without_noise_there_is_none(quiet):
    assert noise_of(quiet).deviation == 0

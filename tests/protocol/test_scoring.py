"""Private scoring equals the trusted third party: every vote of every side, exactly."""

import numpy as np
import pytest
from tests.protocol.world import MODES, World, make_world, scoring_input

from pv4fad.forest.trusted import TrustedThirdParty


def expected_votes(world: World) -> np.ndarray:
    case = world.case
    oracle: TrustedThirdParty = world.oracle
    red = oracle.red_labels(oracle.counts(world.pairs))
    votes = oracle.votes(case.codes, case.accounts.key_of, red, world.data.green_labels)
    return votes.sides


@pytest.mark.parametrize("model", ["sealed", "released"])
@pytest.mark.parametrize("mode", MODES)
def test_votes_of_the_training_transactions(mode, model):
    world = make_world(seed=1, n_banks=2, mode=mode, model=model)
    world.train()
    votes = world.federation.score(world.parameters.run_id, scoring_input(world, world.case))
    assert votes.any()
    assert np.array_equal(votes, expected_votes(world))

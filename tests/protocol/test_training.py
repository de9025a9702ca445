"""Private training equals the trusted third party: counts, labels, model, exactly."""

import numpy as np
import pytest
from tests.protocol.world import MODES, make_world


def check_equal_to_the_trusted_third_party(world) -> None:
    counts = world.oracle.counts(world.pairs)
    assert np.array_equal(world.counts(), counts[:, :-1])
    assert np.array_equal(world.labels(), world.oracle.red_labels(counts))
    assert world.labels().any()
    assert not world.labels().all()


@pytest.mark.parametrize("model", ["sealed", "released"])
@pytest.mark.parametrize("mode", MODES)
def test_two_banks(mode, model):
    world = make_world(seed=1, n_banks=2, mode=mode, model=model)
    world.train()
    check_equal_to_the_trusted_third_party(world)

"""A payment network that counts with weights of its choice reads records exactly, noise or not.

No bank sees the weights, so none can keep it from that (threat model): a sum tells as many bits as
fit between its noise and t.  Answers of a metered run are counted, its training is not.
"""

from dataclasses import replace

import numpy as np
from tests.kit.class_world import ONE, make_class_world

from pv4fad.forest.pairs import GroupCounts

BITS = 8  # of each sum
STEP = 256  # more than the noise on either side


def test_large_weights_read_eight_bits_about_chosen_records_in_every_sum():
    world = make_class_world(3, epsilon=ONE, metered=True)
    t, n_groups = world.parameters.plain_modulus, world.parameters.sizes.n_groups
    assert 2 * world.parameters.noise_tail < STEP <= (t - STEP) // (2**BITS - 1)
    chosen = world.counted.key
    ends = np.minimum(BITS * np.arange(n_groups + 1), len(chosen))
    place = np.arange(len(chosen)) % BITS
    # No cell holds so many: this payment network does not check its own counts.
    crafted = GroupCounts(ends, chosen, STEP << place, np.full(n_groups, t))
    world.data = replace(world.data, counts=crafted)
    world.train()
    sums = (world.counts() + STEP // 2) // STEP
    atoms = world.atoms()[chosen]
    of_group = np.arange(len(chosen)) // BITS
    for number, wanted in enumerate(world.data.sets[0]):
        read = sums[of_group, number] >> place & 1
        assert np.array_equal(read, np.isin(atoms, wanted))
        assert 0 < read.sum() < len(read)

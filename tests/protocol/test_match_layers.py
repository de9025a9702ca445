"""Step 2 of match: layers, shared polynomials and the short cut for few accounts change nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.codewords import ConstantWeightCode
from pv4fad.he.circuits import FEW_ACCOUNTS
from pv4fad.he.keys import Decryptor, generate_keys
from pv4fad.he.ring import Ring, match_ring
from pv4fad.protocol.match import (
    AgreeingJob,
    Layer,
    LayersJob,
    PlanesJob,
    count_agreeing,
    encrypt_planes,
    share_polynomials,
    sum_layers,
)

T = 65537
CODE = ConstantWeightCode()


def layers_of(in_bin: np.ndarray) -> np.ndarray:
    """(layers, bins): a bin with n accounts has one in each of the first n layers."""
    return (np.arange(in_bin.max(initial=0))[:, np.newaxis] < in_bin).astype(np.uint64)


loads = st.lists(st.integers(0, 6), min_size=4, max_size=4).map(np.array)


@given(st.lists(loads, min_size=1, max_size=2))
def test_layers_that_share_a_polynomial_meet_in_no_bin(in_bins):
    words = [layers_of(in_bin) for in_bin in in_bins]
    polynomials = share_polynomials(words)
    shared = [layer for together in polynomials for layer in together]
    assert sorted(shared) == [(b, i) for b, block in enumerate(words) for i in range(len(block))]
    for together in polynomials:
        assert sum(words[block][layer] for block, layer in together).max() <= 1
    # No order of layers needs fewer: a bin's accounts in both blocks all meet the same account.
    assert len(polynomials) == max(sum(in_bins).max(), *map(len, words))


@pytest.fixture(scope="module")
def keys():
    return generate_keys(match_ring(T), relinearisation=True)


def test_two_blocks_together_give_what_each_gives_alone(keys):
    """Codewords that match, differ, or meet an empty bin; few accounts and many; two families."""
    rng = np.random.default_rng(5)
    ring = Ring.of(keys.public.ring)
    blocks, expected, jobs = [], [], []
    for _ in range(2):
        in_bin = rng.poisson(1.0, ring.degree)
        in_bin[in_bin.argmax()] += 1  # a last layer with one account
        occupied = layers_of(in_bin)
        words = CODE.encode(rng.integers(0, 2**64, occupied.size, np.uint64))
        words = words.reshape(occupied.shape) * occupied
        atoms = np.where(
            occupied[:, np.newaxis] == 1, rng.integers(0, 2, (len(words), 2, ring.degree)), -1
        )
        atoms[:, 1] += 2 * (atoms[:, 1] >= 0)
        # A third of the bins hold the account of some layer, a third another, a third none.
        held = words[rng.integers(0, len(words), ring.degree), np.arange(ring.degree)]
        held[1::3] = CODE.encode(rng.integers(0, 2**64, len(held[1::3]), np.uint64))
        held[2::3] = 0
        equal = (words == held) & (held != 0)
        expected.append(
            [((atoms == k).any(axis=1) & equal).sum(axis=0).astype(np.uint64) for k in range(4)]
        )
        planes = encrypt_planes(PlanesJob(keys.secret, held, CODE.length))
        jobs.append(AgreeingJob(keys.public, planes, words))
        blocks.append((words, atoms.astype(np.int16)))
    assert any(0 < np.count_nonzero(words[-1]) <= FEW_ACCOUNTS for words, _ in blocks)
    agreeing = [count_agreeing(job) for job in jobs]
    polynomials = share_polynomials([words for words, _ in blocks])
    assert len(polynomials) < sum(len(words) for words, _ in blocks)
    sums = sum_layers(
        LayersJob(
            keys.public,
            tuple(
                tuple(Layer(b, agreeing[b][i], blocks[b][1][i]) for b, i in together)
                for together in polynomials
            ),
            n_blocks=2,
            n_atoms=4,
        )
    )
    decryptor = Decryptor(keys.secret)
    for got, wanted in zip(sums, expected, strict=True):
        for one, truth in zip(got, wanted, strict=True):
            opened = np.zeros_like(truth) if one is None else decryptor.decrypt(ring.load(one, 2))
            assert np.array_equal(opened, truth)
        assert sum(int(truth.sum()) for truth in wanted) > 1000

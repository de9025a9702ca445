"""Step 2 of match: layers, shared polynomials and the short cut for few accounts change nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.codewords import ConstantWeightCode
from pv4fad.he.circuits import FEW_ACCOUNTS
from pv4fad.he.keys import Decryptor, Evaluator, generate_keys
from pv4fad.he.ring import Ring, match_ring
from pv4fad.protocol.match.bank import MatchBlock, sum_blocks
from pv4fad.protocol.match.steps import PlanesJob, encrypt_planes, n_shared_layers
from pv4fad.workers import WorkerPool

T = 65537
CODE = ConstantWeightCode()
N_ATOMS = 4


def layers_of(in_bin: np.ndarray) -> np.ndarray:
    """(layers, bins): a bin with n accounts has one in each of the first n layers."""
    return (np.arange(in_bin.max(initial=0))[:, np.newaxis] < in_bin).astype(np.uint64)


loads = st.lists(st.integers(0, 6), min_size=4, max_size=4).map(np.array)


@given(loads, loads)
def test_layers_that_share_a_polynomial_meet_in_no_bin(first_loads, second_loads):
    first, second = layers_of(first_loads), layers_of(second_loads)
    n = n_shared_layers(first, second)
    for layer, other in zip(first[len(first) - n :], second[len(second) - n :][::-1], strict=True):
        assert not (layer * other).any()
    # No other order of layers needs fewer polynomials: a bin's accounts all need different ones.
    n_polynomials = len(first) + len(second) - n
    assert n_polynomials == max((first_loads + second_loads).max(), len(first), len(second))


@pytest.fixture(scope="module")
def keys():
    return generate_keys(match_ring(T), relinearisation=True)


def make_block(keys, rng: np.random.Generator) -> tuple[MatchBlock, np.ndarray]:
    """A block and its I_k, (atoms, bins): bins that match, that do not, and empty ones."""
    n_bins = keys.public.ring.degree
    in_bin = rng.poisson(1.0, n_bins)
    in_bin[in_bin.argmax()] += 1  # a last layer with one account
    occupied = layers_of(in_bin)
    words = CODE.encode(rng.integers(0, 2**64, occupied.size, np.uint64))
    words = words.reshape(occupied.shape) * occupied
    atoms = np.where(occupied == 1, rng.integers(0, N_ATOMS, words.shape), -1).astype(np.int16)
    held = words[rng.integers(0, len(words), n_bins), np.arange(n_bins)]
    held[1::3] = CODE.encode(rng.integers(0, 2**64, len(held[1::3]), np.uint64))
    held[2::3] = 0
    equal = (words == held) & (held != 0)
    truth = [((atoms == k) & equal).sum(axis=0) for k in range(N_ATOMS)]
    planes = encrypt_planes(PlanesJob(keys.secret, held, CODE.length))
    return MatchBlock(planes, words, atoms), np.array(truth)


def opened(keys, parts) -> np.ndarray:
    """I_k of a block, (atoms, bins)."""
    ring, evaluator, decryptor = (
        Ring.of(keys.public.ring),
        Evaluator(keys.public),
        Decryptor(keys.secret),
    )
    of_atoms = ([ring.load(one, 2) for one in atom if one] for atom in zip(*parts, strict=True))
    return np.stack([decryptor.decrypt(evaluator.total(atom)) for atom in of_atoms])


def sums_of(keys, pool: WorkerPool, *blocks: MatchBlock):
    return sum_blocks(pool, keys.public, blocks, code_length=CODE.length, n_atoms=N_ATOMS)


class FourParts(WorkerPool):
    """Divides the work as among four workers, and does it here."""

    def map(self, function, jobs):
        return map(function, jobs)


def test_one_block_or_two_in_any_number_of_parts_give_the_plain_join(keys):
    rng = np.random.default_rng(5)
    (first, first_truth), (second, second_truth) = (make_block(keys, rng) for _ in range(2))
    assert n_shared_layers(first.words, second.words) >= 2
    assert 0 < np.count_nonzero(first.words[-1]) <= FEW_ACCOUNTS
    assert first_truth.sum() > 500
    (alone,) = sums_of(keys, FourParts(4), first)
    assert len(alone) == 4
    assert np.array_equal(opened(keys, alone), first_truth)
    together = sums_of(keys, WorkerPool(0), first, second)
    assert np.array_equal(opened(keys, together[0]), first_truth)
    assert np.array_equal(opened(keys, together[1]), second_truth)


def test_a_bank_without_accounts_has_nothing_to_add(keys):
    n_bins = keys.public.ring.degree
    planes = encrypt_planes(PlanesJob(keys.secret, np.zeros(n_bins, np.uint64), CODE.length))
    empty = MatchBlock(planes, np.zeros((0, n_bins), np.uint64), np.zeros((0, n_bins), np.int16))
    sums = sums_of(keys, WorkerPool(0), empty, empty)
    assert sums == [[(None,) * N_ATOMS]] * 2

"""The shares of counts become masked sums of leaves: exactly, modulo t."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.compare.steps import blinded_leaves, masked_leaves
from pv4fad.protocol.count.steps import noisy_share
from pv4fad.randomness import secret_residues


@given(
    st.sampled_from(PLAIN_MODULI),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 2),
    st.integers(0, 2**32),
)
def test_w_minus_r_is_the_noisy_sum_of_every_leaf(t, n_banks, n_groups, n_sets, seed):
    """D_c = Σ d·I + noise for every set, D_rest = N_path − Σ_c D_c."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(-(t // 4), t // 4, (n_groups, n_sets))
    n_path = rng.integers(-(t // 4), t // 4, n_groups)
    noise = rng.integers(-(t // 3), t // 3, (n_banks, counts.size))
    q = secret_residues(t, n_banks * counts.size).reshape(n_banks, -1)
    p = (counts.ravel() + q.astype(np.int64).sum(axis=0)) % t
    masks = secret_residues(t, q.size).reshape(q.shape).astype(np.int64)
    masks[-1] = -masks[:-1].sum(axis=0) % t

    sent = [noisy_share(noise[j], q[j], masks[j].astype(np.uint64), t) for j in range(n_banks)]
    assert all(one.max() < t for one in sent)
    v = (sum(sent) % t).reshape(counts.shape)
    r = secret_residues(t, n_groups * (n_sets + 1))
    w = masked_leaves(
        blinded_leaves(v, r, t).ravel(), p.astype(np.uint64).reshape(counts.shape), n_path, t
    )
    noisy = counts + noise.sum(axis=0).reshape(counts.shape)
    leaves = np.column_stack([noisy, n_path - noisy.sum(axis=1)])
    assert np.array_equal((w.astype(np.int64) - r.reshape(w.shape)) % t, leaves % t)


def test_a_single_bank_needs_no_mask():
    """With ρ in q its residue is uniform anyway: nothing but noise and q go in."""
    noise, q = np.array([5, -7]), np.array([3, 65536], np.uint64)
    sent = noisy_share(noise, q, np.zeros(2, np.uint64), 65537)
    assert sent.tolist() == [2, (-7 - 65536) % 65537]

"""The layout of a table that costs the least, from public numbers alone (protocol.md §3.1).

A table that needs few bins can lie in several strips of a ciphertext (`he.strips`): fewer bins take
fewer ciphertexts, and hold more of the bank's accounts each.  A bank's polynomials take time that
is quadratic in the accounts of a bin.  So where few accounts meet a small bank, strips cost the
least; where they meet a large one, more blocks than they fill do.
"""

from __future__ import annotations

from functools import lru_cache

from pv4fad.hashing.keyed import N_FUNCTIONS
from pv4fad.hashing.table_size import BLOCK_SIZE, TableLayout
from pv4fad.he.polynomial import baby_steps, n_powers
from pv4fad.he.strips import Strips
from pv4fad.protocol.match.comparison import N_BITS, N_DIGITS, N_LAST_REMAINDERS
from pv4fad.protocol.parameters import MOST_STRIPS, most_in_a_bin

# Seconds of both parties, measured: of a block; of a ciphertext with powers, digits or remainders,
# made, sent and used; of a product with coefficients; of a class;
# of polynomials, for each bin and the square of its load.  Of a thousand bins in what follows.
_BLOCK_S, _POWER_S, _DIGIT_S, _REMAINDER_S = 0.18, 0.018, 0.01, 0.015
_COEFFICIENT_S, _CLASS_S = 0.003, 0.07
_BUILD_S, _THOUSAND_BINS_S = 2.1e-8, 0.01
_MOST_BLOCKS = 1000
_LEAST_DEGREE = 2


@lru_cache(maxsize=1024)
def cheapest_layout(
    n_declared: int, n_bank_accounts: int, *, n_trees: int, n_atoms: int, n_tables: int = 1
) -> TableLayout:
    """For so many accounts of the payment network, and at most so many of a bank."""

    def seconds(layout: TableLayout) -> float:
        return table_seconds(layout, n_bank_accounts, n_atoms)

    def full(least_blocks: int) -> TableLayout:
        return TableLayout.for_accounts(n_declared, n_trees, n_tables, least_blocks=least_blocks)

    # The time has steps, where one power less is needed: it can fall again after it has risen.
    best = full(1)
    least_s = _block_seconds(_LEAST_DEGREE, Strips(BLOCK_SIZE, BLOCK_SIZE), n_atoms)
    for n_blocks in range(best.n_blocks + 1, _MOST_BLOCKS + 1):
        if n_blocks * least_s >= seconds(best):
            break
        best = min(best, full(n_blocks), key=seconds)
    candidates = [best]
    for n_strips in range(2, MOST_STRIPS + 1):
        size = BLOCK_SIZE // n_strips
        if size < n_declared:
            break
        layout = TableLayout.for_accounts(n_declared, n_trees, n_tables, block_size=size)
        # With segments, counting takes a fraction of the time.
        if layout.n_blocks == 1 and layout.n_segments == candidates[0].n_segments:
            candidates.append(layout)
    return min(candidates, key=seconds)


def table_seconds(layout: TableLayout, n_bank_accounts: int, n_atoms: int) -> float:
    """What a match of a table costs both parties, about."""
    strips = Strips(layout.block_size, BLOCK_SIZE)
    degree = max(_LEAST_DEGREE, most_in_a_bin(n_bank_accounts, layout.n_bins_used))
    block_s = _block_seconds(degree, strips, n_atoms)
    load = N_FUNCTIONS * n_bank_accounts / layout.n_bins
    bins_s = _BUILD_S * load**2 + _THOUSAND_BINS_S / 1000
    return layout.n_blocks * block_s + layout.n_bins * bins_s


def _block_seconds(degree: int, strips: Strips, n_atoms: int) -> float:
    w, n = baby_steps(degree, strips.n), n_powers(degree, strips.n)
    n_digits = strips.n_ciphertexts(N_DIGITS) + strips.n_ciphertexts(N_BITS)
    return (
        _BLOCK_S
        + _POWER_S * n
        + _COEFFICIENT_S * 2 * (w - 1) * (n - w + 2)
        + _DIGIT_S * n_digits
        + _REMAINDER_S * strips.n_ciphertexts(N_LAST_REMAINDERS)
        + _CLASS_S * n_atoms
    )

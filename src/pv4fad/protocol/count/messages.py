"""The messages of count (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.wire import Message, wire_message

_MIB, _GIB = 2**20, 2**30


@wire_message("masked-products", max_bytes=2 * _GIB)
class MaskedProducts(Message):
    """PaymentNetwork → Bank: d·E_j[s_c] + ρ for every sum of a table; uniform when opened."""

    ciphertexts: tuple[bytes, ...]


@wire_message("noisy-sums", max_bytes=64 * _MIB)
class NoisySums(Message):
    """Bank → Aggregator: noise − q + pairwise masks; uniform."""

    residues: NDArray[np.uint64]


@wire_message("noisy-counts", max_bytes=64 * _MIB)
class NoisyCounts(Message):
    """Aggregator → PaymentNetwork: V, the sum over all banks, for every sum.

    With its own share p the payment network has the noisy counts: what training is for.
    """

    residues: NDArray[np.uint64]

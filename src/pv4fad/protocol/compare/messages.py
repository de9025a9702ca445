"""The messages of compare, with the paper's model only (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.wire import Message, wire_message

_MIB, _GIB = 2**20, 2**30


@wire_message("blinded-sums", max_bytes=64 * _MIB)
class BlindedSums(Message):
    """Aggregator → PaymentNetwork: V + r for every leaf; uniform."""

    residues: NDArray[np.uint64]


@wire_message("encrypted-digits", max_bytes=_GIB)
class EncryptedDigits(Message):
    """PaymentNetwork → Aggregator: one-hot digits of w for one block of leaves, under sk_S."""

    one_hot: tuple[bytes, ...]


@wire_message("shared-labels", max_bytes=64 * _MIB)
class SharedLabels(Message):
    """Aggregator → PaymentNetwork: E_S[label − b] for one block of leaves; uniform when opened."""

    ciphertext: bytes


@wire_message("label-masks", max_bytes=64 * _MIB)
class LabelMasks(Message):
    """Aggregator → Bank (sealed) or PaymentNetwork (released): b of every leaf.

    Uniform, and nothing but uniform to a bank; with label − b it gives the payment network the
    labels, which is what released mode is for.
    """

    residues: NDArray[np.uint64]

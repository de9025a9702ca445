"""The messages of score (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.wire import Message, wire_message

_KIB, _GIB = 2**10, 2**30


@wire_message("blinded-set-shares", max_bytes=_GIB)
class BlindedSetShares(Message):
    """PaymentNetwork → Bank: E_j[s_c + n_c] of every distinct set, block by block; uniform."""

    ciphertexts: tuple[bytes, ...]


@wire_message("set-shares-opened", max_bytes=4 * _KIB)
class SetSharesOpened(Message):
    """Bank → PaymentNetwork: done."""


@wire_message("label-request", max_bytes=4 * _KIB)
class LabelRequest(Message):
    """PaymentNetwork → Bank: please send some label shares, under the key of a match."""

    key_epoch: int


@wire_message("encrypted-labels", max_bytes=_GIB)
class EncryptedLabels(Message):
    """Bank → PaymentNetwork: E_j[b] of some leaves, under sk_j."""

    ciphertexts: tuple[bytes, ...]


@wire_message("score-query", max_bytes=_GIB)
class ScoreQuery(Message):
    """PaymentNetwork → Bank: y_c and Z of some layers of a table; uniform when opened."""

    n_layers: int
    ciphertexts: tuple[bytes, ...]  # block by block, layer by layer: y_c …, Z
    permutation: bytes  # metered: the seed by which the slots of the answer are permuted


@wire_message("score-reply", max_bytes=2 * _GIB)
class ScoreReply(Message):
    """Bank → PaymentNetwork: R for every slot; where a slot is in use, a bit or a vote total.

    Of a broadcast table: Bank → Aggregator, masked pairwise, and Aggregator → PaymentNetwork, the
    sum over all banks.
    """

    residues: NDArray[np.uint32]


@wire_message("own-part", max_bytes=2 * _GIB)
class OwnPart(Message):
    """PaymentNetwork → Aggregator, metered: its own part of every slot, permuted; uniform."""

    residues: NDArray[np.uint32]


@wire_message("metered-reply", max_bytes=2 * _GIB)
class MeteredReply(Message):
    """Bank → Aggregator, metered: R of every slot, permuted; uniform.

    With `OwnPart` the aggregator has the bits, and can count them.
    """

    positives_per_day: int
    release: int
    residues: NDArray[np.uint32]


@wire_message("metering-stopped", max_bytes=4 * _KIB)
class MeteringStopped(Message):
    """Aggregator → PaymentNetwork, metered: a bank's answers are not passed on, and why."""

    reason: str

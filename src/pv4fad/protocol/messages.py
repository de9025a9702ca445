"""The messages of training, one class per row of protocol.md §8.

Each says what it reveals to its receiver.  Sizes follow from the run's parameters alone.  Receivers
check counts and lengths against those parameters; the wire format only bounds them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.wire import Message, wire_message

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@wire_message("run-proposal", max_bytes=64 * _MIB)
class RunProposal(Message):
    """PaymentNetwork → all: the run's parameters (JSON) and the payment network's public keys."""

    parameters: bytes
    public_key: bytes
    relinearisation_key: bytes


@wire_message("bank-keys", max_bytes=8 * _MIB)
class BankKeys(Message):
    """Bank → PaymentNetwork: its public key for shares, and its signed X25519 key."""

    public_key: bytes
    identity: bytes


@wire_message("roster", max_bytes=_MIB)
class Roster(Message):
    """PaymentNetwork → Bank: the signed X25519 keys of all banks."""

    identities: tuple[bytes, ...]


@wire_message("receipt", max_bytes=4 * _KIB)
class Receipt(Message):
    """To the sender of a message that needs no other answer: it has been handled."""

    of: str


@wire_message("encrypted-table", max_bytes=2 * _GIB)
class EncryptedTable(Message):
    """PaymentNetwork → Bank: the bit-planes of some blocks of a table.  Ciphertexts under sk_S."""

    planes: tuple[bytes, ...]  # those of a block are one item, back to back


@wire_message("blinded-indicators", max_bytes=_GIB)
class BlindedIndicators(Message):
    """Bank → PaymentNetwork: E_S[I_k + s_k], uniform when opened, and E_j[s_k] under sk_j."""

    indicators: tuple[bytes, ...]
    encrypted_shares: tuple[bytes, ...]


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

"""The messages of match (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.  Where a field has one
item for each block of bins, the ciphertexts of a block are back to back in it.
"""

from __future__ import annotations

from pv4fad.protocol.wire import Message, wire_message

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@wire_message("encrypted-table", max_bytes=2 * _GIB)
class EncryptedTable(Message):
    """PaymentNetwork → Bank: powers of the tags of some blocks.  Ciphertexts under sk_S."""

    powers: tuple[bytes, ...]  # of each block


@wire_message("masked-values", max_bytes=64 * _MIB)
class MaskedValues(Message):
    """Bank → PaymentNetwork: E_S[P(x) + r] and E_S[L(x) + ρ] of each block; uniform when opened."""

    ciphertexts: tuple[bytes, ...]


@wire_message("value-digits", max_bytes=_GIB)
class ValueDigits(Message):
    """PaymentNetwork → Bank: the digits of what it opened.  Ciphertexts under sk_S."""

    digits: tuple[bytes, ...]  # of each block


@wire_message("masked-distances", max_bytes=64 * _MIB)
class MaskedDistances(Message):
    """Bank → PaymentNetwork: E_S[h + g] of each block; uniform when opened."""

    ciphertexts: tuple[bytes, ...]


@wire_message("remainder-bits", max_bytes=_GIB)
class RemainderBits(Message):
    """PaymentNetwork → Bank: the bits of what it opened, mod 482.  Ciphertexts under sk_S."""

    bits: tuple[bytes, ...]  # of each block


@wire_message("masked-differences", max_bytes=64 * _MIB)
class MaskedDifferences(Message):
    """Bank → PaymentNetwork: E_S[h′ + g′] of each block; uniform when opened."""

    ciphertexts: tuple[bytes, ...]


@wire_message("indicator-planes", max_bytes=2 * _GIB)
class IndicatorPlanes(Message):
    """PaymentNetwork → Bank: of what it opened, remainders, one-hot, and powers of classes.  Under
    sk_S."""

    remainders: tuple[bytes, ...]  # of each block
    classes: tuple[bytes, ...]  # of each block


@wire_message("blinded-indicators", max_bytes=_GIB)
class BlindedIndicators(Message):
    """Bank → PaymentNetwork: E_S[J_m + s′_m], uniform when opened, and E_j[s_k] under sk_j."""

    indicators: tuple[bytes, ...]
    encrypted_shares: tuple[bytes, ...]


@wire_message("tables-in-force", max_bytes=4 * _KIB)
class TablesInForce(Message):
    """PaymentNetwork → Bank: the matches whose tables are scored with; all others are over."""

    epochs: tuple[int, ...]

"""The messages of match (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.
"""

from __future__ import annotations

from pv4fad.protocol.wire import Message, wire_message

_KIB, _GIB = 2**10, 2**30


@wire_message("encrypted-table", max_bytes=2 * _GIB)
class EncryptedTable(Message):
    """PaymentNetwork → Bank: the bit-planes of some blocks of a table.  Ciphertexts under sk_S."""

    planes: tuple[bytes, ...]  # those of a block are one item, back to back


@wire_message("blinded-indicators", max_bytes=_GIB)
class BlindedIndicators(Message):
    """Bank → PaymentNetwork: E_S[I_k + s_k], uniform when opened, and E_j[s_k] under sk_j."""

    indicators: tuple[bytes, ...]
    encrypted_shares: tuple[bytes, ...]


@wire_message("tables-in-force", max_bytes=4 * _KIB)
class TablesInForce(Message):
    """PaymentNetwork → Bank: the matches whose tables are scored with; all others are over."""

    epochs: tuple[int, ...]

"""The messages of propose (protocol.md §8).

Each says what it reveals to its receiver.  Sizes follow from public parameters alone; receivers
check counts and lengths against those, the wire format only bounds them.
"""

from __future__ import annotations

from pv4fad.protocol.wire import Message, wire_message

_MIB = 2**20


@wire_message("run-proposal", max_bytes=64 * _MIB)
class RunProposal(Message):
    """PaymentNetwork → all: the run's parameters (JSON) and the payment network's public keys.

    Banks get those of all rings, the aggregator that of the compare ring if it compares sums, and
    no hash key of accounts.  The uniform part of a key is not sent: its receiver derives it
    (`he.uniform_parts`).  A match without any goes on with the keys in use, on both sides.
    """

    parameters: bytes
    public_keys: tuple[bytes, ...]
    relinearisation_keys: tuple[bytes, ...]  # empty where nothing is multiplied


@wire_message("bank-keys", max_bytes=8 * _MIB)
class BankKeys(Message):
    """Bank → PaymentNetwork: its public key for shares, without the uniform part, and its signed
    X25519 key for the masks of this run."""

    public_key: bytes  # empty: the one in use
    identity: bytes  # empty: a further match


@wire_message("roster", max_bytes=_MIB)
class Roster(Message):
    """PaymentNetwork → Bank: the signed X25519 keys of all banks."""

    identities: tuple[bytes, ...]

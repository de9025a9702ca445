"""Files that a party hands to somebody else, signed as a whole with its identity key.

What is signed is a purpose and all that the file says but its signature, always written in the same
way: a file that is only formatted otherwise is still the one that was signed.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pv4fad.validated import ValidatedModel


def signature_of(file: ValidatedModel, purpose: bytes, secret: bytes) -> str:
    """Of the owner of a signing secret, for the field `signature`, in hexadecimal digits."""
    return Ed25519PrivateKey.from_private_bytes(secret).sign(_statement(file, purpose)).hex()


def is_signed(file: ValidatedModel, signature: str, purpose: bytes, key: bytes) -> bool:
    """Whether the owner of a signing key says all of it."""
    try:
        signed = _statement(file, purpose)
        Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(file: ValidatedModel, purpose: bytes) -> bytes:
    return purpose + file.model_copy(update={"signature": ""}).model_dump_json().encode()

"""A presented identity is verified, and secret keys are not shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError, ProtocolError, StoreError
from pv4fad.privacy.pairwise import PairwiseKey
from pv4fad.protocol.identity import (
    Identity,
    PublicIdentity,
    create_identity,
    stored_identity,
)
from pv4fad.store.store import MemoryStore

BANK = Identity.generate("bank-a")


def test_identities_survive_store_and_wire():
    store = MemoryStore("bank-a")
    assert stored_identity(store) is None
    identity = create_identity(store)
    assert stored_identity(store) == identity
    with pytest.raises(StoreError, match="has keys already"):
        create_identity(store)
    assert PublicIdentity.from_bytes(BANK.public().to_bytes()) == BANK.public()


def test_the_key_for_a_run_is_signed_by_the_party_for_that_run_and_no_other():
    key, other = PairwiseKey("bank-a", bytes(range(32))), Identity.generate("bank-b")
    shown = BANK.for_run(key, "run-1").to_bytes()
    assert PublicIdentity.from_bytes(shown, "run-1").pairwise_key == key.public
    for run_id in ("run-2", ""):
        with pytest.raises(ProtocolError, match="the X25519 key of bank-a is not signed by it"):
            PublicIdentity.from_bytes(shown, run_id)
    with pytest.raises(ProtocolError, match="is not signed by it for run run-1"):
        PublicIdentity.from_bytes(BANK.public().to_bytes(), "run-1")
    with pytest.raises(ProtocolError, match="another signing key"):
        PublicIdentity.from_bytes(shown, "run-1").require_signed_by(other.public().signing_key)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_presented_identity_with_any_byte_changed_is_refused(position, change):
    data = bytearray(BANK.public().to_bytes())
    data[position % len(data)] ^= change
    with pytest.raises(ProtocolError):
        PublicIdentity.from_bytes(bytes(data))


@given(st.binary(max_size=200))
def test_random_bytes_are_no_identity(data):
    for start in (b"", BANK.public().to_bytes()[:5]):
        with pytest.raises(ProtocolError):
            PublicIdentity.from_bytes(start + data)


def test_truncated_identities_are_refused():
    whole = BANK.public().to_bytes()
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            PublicIdentity.from_bytes(whole[:length])


def test_another_signing_key_than_the_known_one_is_refused():
    impostor = Identity.generate("bank-a").public()
    BANK.public().require_signed_by(BANK.public().signing_key)
    with pytest.raises(ProtocolError, match="bank-a presents another signing key"):
        impostor.require_signed_by(BANK.public().signing_key)
    assert impostor.fingerprint != BANK.public().fingerprint


def test_a_name_is_part_of_what_is_signed():
    public = BANK.public()
    with pytest.raises(ProtocolError, match="not signed"):
        PublicIdentity("bank-b", public.signing_key, public.pairwise_key, public.signature)


def test_names_are_bounded_and_printable():
    for name in ("", "x" * 129, "a\nb"):
        with pytest.raises(ParameterError):
            Identity.generate(name)
    with pytest.raises(ProtocolError, match="not text"):
        PublicIdentity.from_bytes(BANK.public().to_bytes().replace(b"bank-a", b"bank\na"))


def test_secret_keys_are_not_shown():
    assert repr(BANK) == "Identity(name='bank-a')"

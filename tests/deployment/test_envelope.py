"""Only sender and receiver can open an envelope, and only as it was sealed."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.in_threads import make_card

from pv4fad.deployment import envelope
from pv4fad.deployment.card import federation_id, read_card, require_complete
from pv4fad.deployment.correspondence import Correspondence, framed
from pv4fad.deployment.envelope import Assembly, Envelopes
from pv4fad.deployment.party_folder import read_identity
from pv4fad.errors import DataError, ProtocolError, StoreError
from pv4fad.protocol.identity import create_identity
from pv4fad.store.sealing import Sealer
from pv4fad.store.store import MemoryStore
from pv4fad.words import Words


def correspondents(*names):
    stores = {name: MemoryStore(name) for name in names}
    cards = {name: make_card(store, "bank") for name, store in stores.items()}
    return {name: Correspondence(read_identity(store), cards) for name, store in stores.items()}


def in_session(correspondents, session="one"):
    """Each party's envelopes, when all have shown their keys."""
    parties = {name: Envelopes(own, session) for name, own in correspondents.items()}
    offers = {name: party.offer for name, party in parties.items()}
    for party in parties.values():
        party.take(offers)
    return parties


KEYS = correspondents("bank-a", "bank-b", "bank-c")
PARTIES = in_session(KEYS)


def assembled(receiver, fragments):
    assembly = Assembly(receiver)
    *parts, whole = [assembly.add(fragment) for fragment in fragments]
    assert all(part is None for part in parts)
    return whole


@settings(max_examples=50, deadline=None)
@given(message=st.binary(max_size=300), part_bytes=st.integers(1, 80))
def test_a_message_arrives_as_it_was_sent_in_parts_of_bounded_size(message, part_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "PART_BYTES", part_bytes)
        fragments = PARTIES["bank-a"].seal("bank-b", message)
    assert all(len(fragment.body) <= part_bytes + 28 for fragment in fragments)  # nonce and tag
    assert assembled(PARTIES["bank-b"], fragments) == message


def test_a_third_party_cannot_open_it():
    (fragment,) = PARTIES["bank-a"].seal("bank-b", b"for b only")
    with pytest.raises(ProtocolError, match="a message for bank-b reached bank-c"):
        PARTIES["bank-c"].open(fragment)
    with pytest.raises(ProtocolError, match="was not sealed by it for bank-c in this session"):
        PARTIES["bank-c"].open(replace(fragment, receiver="bank-c"))


def test_a_party_cannot_send_in_the_name_of_another():
    (fragment,) = PARTIES["bank-c"].seal("bank-b", b"hello")
    with pytest.raises(ProtocolError, match="claims to be from bank-a was not sealed by it"):
        PARTIES["bank-b"].open(replace(fragment, sender="bank-a"))


@pytest.mark.parametrize(
    "change",
    [{"part": 1}, {"n_parts": 2}, {"envelope": "00"}, {"body": b"\0" * 40}, {"body": b""}],
    ids=str,
)
def test_a_changed_fragment_is_refused(change):
    (fragment,) = PARTIES["bank-a"].seal("bank-b", b"hello")
    with pytest.raises(ProtocolError, match="or was changed on its way"):
        PARTIES["bank-b"].open(replace(fragment, **change))


def test_a_message_does_not_come_back_as_an_answer():
    (fragment,) = PARTIES["bank-a"].seal("bank-b", b"hello")
    with pytest.raises(ProtocolError, match="was not sealed by it"):
        PARTIES["bank-a"].open(replace(fragment, sender="bank-b", receiver="bank-a"))


def test_a_message_of_a_foreign_federation_is_refused_in_clear_words():
    foreign = in_session(correspondents("bank-a", "bank-b"))
    (fragment,) = foreign["bank-a"].seal("bank-b", b"hello")
    with pytest.raises(ProtocolError, match="the parties do not have the same cards"):
        PARTIES["bank-b"].open(fragment)
    ours = KEYS["bank-b"].federation
    with pytest.raises(ProtocolError, match="was not sealed by it"):
        PARTIES["bank-b"].open(replace(fragment, federation=ours))


def test_parties_that_share_two_federations_keep_their_messages_apart():
    stores = {name: MemoryStore(name) for name in ("bank-a", "bank-b", "bank-c")}
    cards = {name: make_card(store, "bank") for name, store in stores.items()}
    two_banks = {name: cards[name] for name in ("bank-a", "bank-b")}
    one, two = (
        {name: Correspondence(read_identity(stores[name]), known) for name in known}
        for known in (two_banks, cards)
    )
    in_one, in_two = in_session(one), in_session(two)
    (fragment,) = in_one["bank-a"].seal("bank-b", b"")
    with pytest.raises(ProtocolError, match="was not sealed by it"):
        in_two["bank-b"].open(replace(fragment, federation=two["bank-b"].federation))
    with pytest.raises(ProtocolError, match="a session key of bank-a that it has not signed"):
        in_two["bank-b"].take({"bank-a": in_one["bank-a"].offer})


def test_parts_out_of_order_are_refused():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "PART_BYTES", 2)
        first, second = PARTIES["bank-a"].seal("bank-b", b"abcd")
    assembly = Assembly(PARTIES["bank-b"])
    with pytest.raises(ProtocolError, match="is out of order"):
        assembly.add(second)
    assembly.add(first)
    with pytest.raises(ProtocolError, match="is out of order"):
        assembly.add(first)


def test_no_more_than_a_bounded_number_of_parts_and_envelopes_is_kept():
    """Whatever a sender does: it has the key, and could seal anything."""
    sender, receiver = PARTIES["bank-a"], PARTIES["bank-b"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "PART_BYTES", 2)
        first, _ = sender.seal("bank-b", b"abcd")
        other, _ = sender.seal("bank-b", b"efgh")
        (alone,) = sender.seal("bank-b", b"i")
        with pytest.raises(
            ProtocolError, match="bank-b has 3,000 bytes; at most 2,048 can be sent"
        ):
            sender.seal("bank-b", bytes(3000))
        patch.setattr(envelope, "MOST_PARTS", 2000)
        many = sender.seal("bank-b", bytes(3000))
    assembly = Assembly(receiver)
    with pytest.raises(ProtocolError, match="in 1500 parts; at most 1024"):
        assembly.add(many[0])
    assembly.add(first)
    for begun_meanwhile in (other, alone):
        with pytest.raises(ProtocolError, match="before it finished the one before"):
            assembly.add(begun_meanwhile)
    (long,) = PARTIES["bank-c"].seal("bank-b", bytes(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "PART_BYTES", 2)
        with pytest.raises(ProtocolError, match="longer than parts are"):
            assembly.add(long)


def test_a_party_without_a_card_is_unknown():
    with pytest.raises(ProtocolError, match="bank-a has no card of bank-x"):
        PARTIES["bank-a"].seal("bank-x", b"")


# Session keys.


def test_who_records_everything_and_steals_the_keys_of_all_cards_later_opens_nothing():
    """The thief has all that is left once the session is over: identities, offers, envelopes."""
    parties = in_session(KEYS)
    (fragment,) = parties["bank-a"].seal("bank-b", b"recorded")
    one, two = KEYS["bank-a"], KEYS["bank-b"]
    publics = [bytes.fromhex(parties[name].offer)[:32] for name in ("bank-a", "bank-b")]
    del parties
    first, second = map(X25519PublicKey.from_public_bytes, publics)
    known = [two.exchange(first), one.exchange(second), one.exchange(one.public_key("bank-b"))]
    names = (one.federation.encode(), b"bank-a", b"bank-b")
    label = envelope._label(fragment.envelope, 0, 1)
    secrets = {b"".join(some) for n in range(4) for some in permutations(known, n)}
    assert len(secrets) == 16
    for info in (
        framed(envelope._PURPOSE, *names, b"one", *publics),
        framed(b"pv4fad envelope, version 1", *names),
    ):
        for secret in secrets:
            keys = HKDF(SHA256(), 64, salt=None, info=info).derive(secret)
            with pytest.raises(StoreError):
                Sealer(keys[:32]).open(fragment.body, label)


def test_with_long_term_keys_alone_nobody_can_take_a_partys_place():
    """A thief of the X25519 key that a card vouches for has no signature for a key of its own."""
    store = MemoryStore("bank-a")
    stolen = replace(
        create_identity(store), pairwise_secret=KEYS["bank-a"]._identity.pairwise_secret
    )
    thief = Envelopes(Correspondence(stolen, {}), "one")
    bank = Envelopes(KEYS["bank-b"], "one")
    with pytest.raises(ProtocolError, match="a session key of bank-a that it has not signed"):
        bank.take({"bank-a": thief.offer})


def test_a_session_key_of_another_session_party_or_size_is_refused_and_its_party_named():
    recorded = in_session(KEYS, "before")["bank-a"].offer
    bank = Envelopes(KEYS["bank-b"], "one")
    present = Envelopes(KEYS["bank-a"], "one").offer
    substituted = Envelopes(KEYS["bank-c"], "one").offer
    changed = f"{int(present[0], 16) ^ 1:x}{present[1:]}"
    for wrong in (recorded, substituted, changed, present[:-2], present + "00", "", "nothing"):
        with pytest.raises(ProtocolError, match="a session key of bank-a that it has not signed"):
            bank.take({"bank-a": wrong})
    with pytest.raises(ProtocolError, match="bank-b has no card of bank-x"):
        bank.take({"bank-x": present})
    assert not bank.knows("bank-a")
    bank.take({"bank-a": present})
    bank.take({"bank-a": present})
    with pytest.raises(ProtocolError, match="bank-a has signed two session keys for one session"):
        bank.take({"bank-a": Envelopes(KEYS["bank-a"], "one").offer})
    with pytest.raises(ProtocolError, match="a session key of bank-b that is not its present"):
        bank.take({"bank-b": Envelopes(KEYS["bank-b"], "one").offer})


def test_an_old_session_key_that_a_relay_shows_again_leads_to_keys_that_nobody_has():
    """Not even if the relay gives two sessions one name."""
    recorded = in_session(KEYS)["bank-a"].offer
    present, deceived = Envelopes(KEYS["bank-a"], "one"), Envelopes(KEYS["bank-b"], "one")
    deceived.take({"bank-a": recorded})
    present.take({"bank-b": deceived.offer})
    (fragment,) = deceived.seal("bank-a", b"hello")
    with pytest.raises(ProtocolError, match="was not sealed by it for bank-a in this session"):
        present.open(fragment)


def test_an_envelope_of_one_session_does_not_open_in_another():
    (fragment,) = PARTIES["bank-a"].seal("bank-b", b"hello")
    with pytest.raises(ProtocolError, match="was not sealed by it for bank-b in this session"):
        in_session(KEYS, "two")["bank-b"].open(fragment)


def test_nothing_is_sealed_before_the_receivers_key_is_known():
    alone = Envelopes(KEYS["bank-a"], "one")
    with pytest.raises(ProtocolError, match="bank-b before its session key is known"):
        alone.seal("bank-b", b"hello")


@pytest.mark.parametrize("point", [bytes(32), bytes([1, *bytes(31)])], ids=["zero", "one"])
def test_a_session_key_of_small_order_is_refused(point):
    bank = Envelopes(KEYS["bank-b"], "one")
    sender = Envelopes(KEYS["bank-a"], "one")
    signature = KEYS["bank-a"].sign(sender._statement("bank-a", point))
    bank.take({"bank-a": (point + signature).hex()})
    with pytest.raises(ProtocolError, match="a session key of bank-a that is none"):
        bank.seal("bank-a", b"hello")


def card(name, role="bank", **entries):
    made = make_card(MemoryStore(name), role)
    return made.model_copy(update={"names": ("AAAAGB2L",), "accounts": 1000} | entries)


def test_the_fingerprint_covers_every_entry_of_a_card():
    one = card("bank-a")
    changed = [
        one.model_copy(update={"accounts": 1001}),
        one.model_copy(update={"names": ("BBBBGB2L",)}),
        one.model_copy(update={"certificate": "another"}),
        one.model_copy(update={"identity": card("bank-a").identity}),
    ]
    assert len({made.fingerprint for made in [one, *changed]}) == 5


def test_a_card_with_the_keys_of_another_is_refused(tmp_path):
    forged = card("bank-a", identity=card("bank-b").identity)
    path = tmp_path / "card.json"
    path.write_text(forged.to_json())
    with pytest.raises(DataError, match="the card of bank-a carries the keys of bank-b"):
        read_card(path)
    path.write_text("{}")
    with pytest.raises(DataError, match=r"card\.json: role: is missing"):
        read_card(path)
    path.write_text("no card")
    with pytest.raises(DataError, match=r"card\.json"):
        read_card(path)


def test_a_federation_is_named_by_its_keys_and_complete_with_all_roles():
    cards = {
        "bank-a": card("bank-a"),
        "aggregator": card("aggregator", "aggregator", names=()),
        "payment-network": card("payment-network", "payment-network", names=()),
    }
    require_complete(cards, Words())
    assert federation_id(cards.values()) == federation_id(reversed(cards.values()))
    words = Words(lead="insurer", holder="clinic")
    for name, called in (
        ("aggregator", "aggregator"),
        ("payment-network", "insurer"),
        ("bank-a", "clinic"),
    ):
        known = {other: one for other, one in cards.items() if other != name}
        with pytest.raises(DataError, match=f"the card of the {called} is missing"):
            require_complete(known, words)
    with pytest.raises(DataError, match="both declare records of AAAAGB2L"):
        require_complete(cards | {"bank-b": card("bank-b")}, Words())

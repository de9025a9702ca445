"""A stamp binds a message to its place; what does not fit is refused, and by name."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest
from tests.kit.class_world import make_class_world
from tests.kit.hub_world import letter
from tests.kit.pair import ONE, TWO, Pair

from pv4fad.audit.notary import Notary, known_keys
from pv4fad.audit.stamp import STAMP_BYTES, Stamp, content_digest, split
from pv4fad.errors import ProtocolError, Pv4fadError, StoreError, WireError
from pv4fad.privacy.delta import charge
from pv4fad.privacy.ledger import Spent, set_limit
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.wire import Address, encode, message_id, read_header
from pv4fad.store.store import MemoryStore


@pytest.fixture
def pair() -> Pair:
    return Pair()


def unchanged(pair: Pair, name: str, data: bytes, error: type[Pv4fadError], match: str) -> None:
    """Refused for this reason, and the store is as before."""
    before = pair.stores[name].snapshot()
    with pytest.raises(error, match=match):
        pair.deliver(data, name)
    assert pair.stores[name].snapshot() == before


def test_a_message_arrives_as_it_was_and_a_repeat_has_the_same_bytes(pair):
    message = letter(ONE, TWO, np.arange(5, dtype=np.uint32))
    stamped = pair.notary(ONE).stamped(message)
    assert len(stamped) == len(message) + STAMP_BYTES
    assert pair.notary(ONE).stamped(message) == stamped
    assert pair.deliver(stamped) == message
    kept = pair.stores[TWO].snapshot()
    assert pair.deliver(stamped) == message
    assert pair.stores[TWO].snapshot() == kept


def test_stamps_of_long_and_short_messages_have_the_same_size(pair):
    sizes = set()
    for number, n in enumerate((0, 1, 1000)):
        message = letter(ONE, TWO, np.zeros(n, np.uint32), number)
        sizes.add(len(pair.notary(ONE).stamped(message)) - len(message))
    assert sizes == {STAMP_BYTES}


def test_equal_messages_have_different_digests(pair):
    """Logs are shown to people who could guess what was in a message."""
    first, second = (Pair().send(ONE, 0) for _ in range(2))
    assert split(first)[0] == split(second)[0]
    contents = {content_digest(split(one)[1].salt, split(one)[0]) for one in (first, second)}
    assert len(contents) == 2


@pytest.mark.parametrize("position", [-STAMP_BYTES - 1, *range(-STAMP_BYTES + 6, 0, 16), -1])
def test_no_byte_of_message_or_stamp_can_be_changed(pair, position):
    data = bytearray(pair.send(ONE, 0))
    data[position] ^= 1
    unchanged(pair, TWO, bytes(data), ProtocolError, "has not signed this")


def test_what_is_no_stamped_message_is_refused(pair):
    message = letter(ONE, TWO, np.zeros(1000, np.uint32))
    data = pair.notary(ONE).stamped(message)
    unchanged(pair, TWO, message, WireError, "without a stamp")
    unchanged(pair, TWO, data[:100], WireError, "truncated")
    unchanged(pair, ONE, data, ProtocolError, "a message for bank02 reached bank01")


def test_who_is_not_known_is_refused(pair):
    stranger = Identity.generate("bank03")
    notary = Notary(MemoryStore("bank03"), stranger, pair.keys)
    data = notary.stamped(letter("bank03", TWO, np.zeros(1, np.uint32)))
    unchanged(pair, TWO, data, ProtocolError, "bank02 does not know bank03")
    with pytest.raises(ProtocolError, match="bank01 does not know bank09"):
        pair.notary(ONE).stamped(letter(ONE, "bank09", np.zeros(1, np.uint32)))


def test_a_message_that_comes_after_a_later_one_is_refused(pair):
    first, second = pair.send(ONE, 0), pair.send(ONE, 1)
    pair.deliver(second)
    unchanged(pair, TWO, first, ProtocolError, "message 1 of bank01 comes after its message 2")


def test_a_message_that_was_given_up_is_noticed_and_the_next_is_taken(pair, caplog):
    pair.deliver(pair.send(ONE, 0))
    pair.send(ONE, 1)
    third = pair.send(ONE, 2)
    with caplog.at_level(logging.WARNING, "pv4fad.audit"):
        pair.deliver(third)
    assert "bank01: messages 2 to 2 did not arrive" in caplog.text


def test_the_same_message_with_other_content_is_not_sent(pair):
    pair.send(ONE, 0, content=1)
    with pytest.raises(ProtocolError, match="was sent before with other content"):
        pair.send(ONE, 0, content=2)


def test_a_sender_whose_store_was_put_back_is_refused(pair):
    pair.deliver(pair.send(ONE, 0))
    earlier = pair.stores[ONE].snapshot()
    pair.deliver(pair.send(ONE, 1))
    pair.put_back(ONE, earlier)
    again = pair.send(ONE, 2)
    unchanged(pair, TWO, again, ProtocolError, "bank01 has signed a second message 2 to bank02")


def test_a_chain_that_does_not_continue_the_one_before_is_refused(pair):
    """The sender's store was put back, and the first message after that was lost."""
    pair.deliver(pair.send(ONE, 0))
    earlier = pair.stores[ONE].snapshot()
    pair.deliver(pair.send(ONE, 1))
    pair.put_back(ONE, earlier)
    pair.send(ONE, 2)
    third = pair.send(ONE, 3)
    unchanged(pair, TWO, third, ProtocolError, "3 of bank01 does not follow its message 2")


def test_a_receiver_whose_store_was_put_back_finds_out(pair):
    earlier = pair.stores[ONE].snapshot()
    pair.deliver(pair.send(ONE, 0))
    answer = pair.send(TWO, 0)
    pair.put_back(ONE, earlier)
    text = "bank02 has seen 1 messages of bank01, whose store knows of 0: this store was put back"
    unchanged(pair, ONE, answer, StoreError, text)


def test_who_has_seen_a_message_and_denies_that_it_arrived_is_refused(pair):
    """It could leave the message out of its log, and its sender would have to explain that."""
    pair.deliver(pair.send(ONE, 0))
    message, stamp = split(pair.send(TWO, 0))
    content = content_digest(stamp.salt, message)
    name = message_id(read_header(message))
    secret = pair.identities[TWO].signing_secret
    denied = replace(stamp, arrived=0).signed(secret, TWO, ONE, name, content)
    data = bytes(message) + denied.to_bytes()
    text = "bank02 has signed that it has seen message 1 of bank01, and that it has not arrived"
    unchanged(pair, ONE, data, ProtocolError, text)


def test_a_receiver_whose_store_has_another_past_finds_out(pair):
    earlier = pair.stores[ONE].snapshot()
    pair.deliver(pair.send(ONE, 0))
    answer = pair.send(TWO, 0)
    pair.put_back(ONE, earlier)
    pair.send(ONE, 5)
    unchanged(pair, ONE, answer, StoreError, "bank02 has seen another message 1 of bank01")


def test_a_ledger_that_forgot_an_entry_is_refused(pair):
    """Even if the log of messages was not put back."""
    without = pair.stores[ONE].snapshot()
    with pair.stores[ONE].transaction() as tx:
        set_limit(tx, Fraction(1), datetime.now(UTC))
    pair.deliver(pair.send(ONE, 0))
    ledger = {name for name in pair.stores[ONE].snapshot() if name.startswith("permanent/ledger/")}
    assert ledger
    assert not ledger & set(without)
    kept = {k: v for k, v in pair.stores[ONE].snapshot().items() if k not in ledger}
    pair.put_back(ONE, kept)
    data = pair.send(ONE, 1)
    unchanged(pair, TWO, data, ProtocolError, "ledger with 0 entries after another with 1")


def test_an_account_of_delta_that_forgot_a_day_is_refused(pair):
    """Its days are no entries of the ledger: only what they come to shows."""
    with pair.stores[ONE].transaction() as tx:
        charge(tx, "match", Fraction(1, 2**20), Fraction(1, 2**10), datetime.now(UTC))
    pair.deliver(pair.send(ONE, 0))
    records = pair.stores[ONE].snapshot()
    kept = {name: value for name, value in records.items() if not name.startswith("delta")}
    assert len(kept) < len(records)
    pair.put_back(ONE, kept)
    data = pair.send(ONE, 1)
    unchanged(pair, TWO, data, ProtocolError, "bank01 shows that it has spent less than before")


def test_a_ledger_with_another_entry_is_refused(pair):
    for limit in (1, 2):
        with pair.stores[ONE].transaction() as tx:
            set_limit(tx, Fraction(limit), datetime.now(UTC))
        if limit == 1:
            pair.deliver(pair.send(ONE, 0))
            names = [one for one in pair.stores[ONE].snapshot() if "ledger/" in one]
    records = pair.stores[ONE].snapshot()
    (first,) = names
    (second,) = (one for one in records if "ledger/" in one and one != first)
    records[first] = records.pop(second)
    pair.put_back(ONE, records)
    data = pair.send(ONE, 1)
    unchanged(pair, TWO, data, ProtocolError, "ledger with 1 entries after another with 1")


def test_new_keys_begin_new_chains(pair):
    pair.deliver(pair.send(ONE, 0))
    renewed = Pair()
    renewed.identities[TWO] = pair.identities[TWO]
    renewed.keys = known_keys(one.public() for one in renewed.identities.values())
    renewed.stores[TWO] = pair.stores[TWO]
    renewed.deliver(renewed.send(ONE, 1))
    assert split(renewed.send(TWO, 0))[1].seen.number == 1


def test_a_stamp_is_for_its_sender_and_receiver_only(pair):
    message, stamp = split(pair.send(ONE, 0))
    name, content = message_id(read_header(message)), content_digest(stamp.salt, message)
    key = pair.keys[ONE]
    assert stamp.is_signed_by(key, ONE, TWO, name, content)
    assert not stamp.is_signed_by(key, TWO, ONE, name, content)
    assert not stamp.is_signed_by(pair.keys[TWO], ONE, TWO, name, content)
    assert not stamp.is_signed_by(key[:5], ONE, TWO, name, content)
    assert Stamp.from_bytes(stamp.to_bytes()) == stamp
    other = {"time_ms": 0, "arrived": 1, "commitment": b"\1" * 32, "spent": Spent(1, 0)}
    for field, value in other.items():
        assert not replace(stamp, **{field: value}).is_signed_by(key, ONE, TWO, name, content)
    assert not stamp.is_signed_by(key, ONE, TWO, name + "0", content)


def test_the_commitment_of_a_proposal_is_in_its_stamp_and_another_one_is_refused(pair):
    parameters = make_class_world(1, n_banks=1).parameters.model_copy(
        update={"commitment": "ab" * 32}
    )
    told = parameters.model_dump_json().encode()
    proposal = encode(RunProposal(Address(ONE, TWO, parameters.run_id), told, (), ()))
    message, stamp = split(pair.notary(ONE).stamped(proposal))
    assert stamp.commitment == b"\xab" * 32
    for other in (b"\1" * 32, bytes(32)):
        wrong = replace(stamp, commitment=other).signed(
            pair.identities[ONE].signing_secret,
            *(ONE, TWO, message_id(read_header(message))),
            content_digest(stamp.salt, message),
        )
        data = proposal + wrong.to_bytes()
        unchanged(pair, TWO, data, ProtocolError, "bank01 has signed another commitment")
    assert pair.deliver(proposal + stamp.to_bytes()) == proposal
    assert split(pair.send(ONE, 1))[1].commitment == bytes(32)

"""Whoever has to explain something is named, and nobody else: what only stands in the log of one
party, unsigned, is that party's to explain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.kit.class_world import make_class_world
from tests.kit.pair import ONE, THREE, TWO, Pair

from pv4fad.audit.log_file import LogFile, LoggedMark, LoggedMessage
from pv4fad.audit.stamp import N_ARRIVED, Mark
from pv4fad.audit.verify import verify_logs
from pv4fad.audit.verify_chain import Fault
from pv4fad.errors import DataError
from pv4fad.privacy.delta import charge
from pv4fad.privacy.ledger import (
    Restored,
    Spent,
    note_restored,
    set_delta_limit,
    set_limit,
    spend,
)
from pv4fad.protocol.count.bank import expense_of
from pv4fad.protocol.count.messages import NoisySums
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Address, encode

NOW = datetime(2026, 1, 3, 12, tzinfo=UTC)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def trio() -> Pair:
    return Pair(THREE)


def faults(pair: Pair, **changed: LogFile) -> tuple[Fault, ...]:
    return verify_logs(list((pair.logs() | changed).values())).faults


def without(log: LogFile, *numbers: int) -> LogFile:
    """The received messages with these numbers are left out."""
    return edited(log, "received", lambda found: [m for m in found if m.number not in numbers])


def edited(
    log: LogFile, direction: str, change: Callable[[list[LoggedMessage]], list[LoggedMessage]]
) -> LogFile:
    chains = [
        one.model_copy(update={"messages": tuple(change(list(one.messages)))})
        if one.direction == direction
        else one
        for one in log.chains
    ]
    return log.model_copy(update={"chains": tuple(chains)})


# Messages that did not arrive.


def test_a_message_that_was_dropped_is_not_its_receivers_to_explain(pair):
    pair.deliver(pair.send(ONE, 0))
    pair.send(ONE, 1)  # dropped by whoever carries it
    pair.deliver(pair.send(ONE, 2))
    for _ in range(2):
        (fault,) = faults(pair)
        assert fault.party == ONE
        assert "its message 2 to bank02 (run/t/1/" in fault.what
        assert "did not arrive, by the log of bank02, and was never confirmed" in fault.what
        pair.deliver(pair.send(TWO, 0), ONE)  # confirms 1 and 3
    assert verify_logs(list(pair.logs().values())).n_confirmed == 2
    # Alone, neither log has a fault: the sender cannot know, the receiver has confirmed nothing.
    for log in pair.logs().values():
        assert verify_logs([log]).faults == ()


def test_what_was_left_out_is_told_from_what_was_dropped(pair):
    for number in range(5):
        data = pair.send(ONE, number)
        if number != 1:
            pair.deliver(data)
    pair.deliver(pair.send(TWO, 0), ONE)
    found = faults(pair, **{TWO: without(pair.logs()[TWO], 1, 4)})
    assert {(one.party, one.what[:20]) for one in found} == {
        (ONE, "its message 2 to ban"),
        (TWO, "message 1 of bank01 "),
        (TWO, "message 4 of bank01 "),
    }
    assert all("bank02 has confirmed it" in one.what for one in found if one.party == TWO)


@pytest.mark.parametrize("n", [N_ARRIVED, N_ARRIVED + 1, 2 * N_ARRIVED + 3])
def test_a_stamp_confirms_at_most_the_latest_messages(pair, n):
    """And never one that has not arrived; what earlier stamps said is not forgotten."""
    lost, dropped = 2, n - 1
    for number in range(1, n + 1):
        data = pair.send(ONE, number)
        if number not in (lost, dropped):
            pair.deliver(data)
    pair.deliver(pair.send(TWO, 0), ONE)
    (chain,) = (one for one in pair.logs()[TWO].chains if one.direction == "sent")
    expected = set(range(max(n - N_ARRIVED, 0) + 1, n + 1)) - {lost, dropped}
    assert chain.messages[0].confirms == expected
    assert {one.party for one in faults(pair)} == {ONE}
    pair.deliver(pair.send(ONE, n + 1))
    pair.deliver(pair.send(TWO, 1), ONE)
    later = next(one for one in pair.logs()[TWO].chains if one.direction == "sent").messages[1]
    assert later.confirms == {m for m in expected if m > n + 1 - N_ARRIVED} | {n + 1}


# An innocent party.


def signed(pair: Pair, message: LoggedMessage, sender: str, **update: Any) -> LoggedMessage:
    """As a party can sign it that has never sent it."""
    receiver = TWO if sender == ONE else ONE
    secret = pair.identities[sender].signing_secret
    stamp = replace(message.stamp(), **update)
    content = bytes.fromhex(message.content)
    stamp = stamp.signed(secret, sender, receiver, message.message, content)
    return message.model_copy(
        update={
            "seen": LoggedMark.of(stamp.seen),
            "arrived": stamp.arrived,
            "signature": stamp.signature.hex(),
        }
    )


RELEASE = f"run9/t/0/{NoisySums.kind}/0/bank01/bank02"
FAR = LoggedMark(number=100, head="ab" * 32)
Change = Callable[[Pair, list[LoggedMessage]], list[LoggedMessage]]
OF_LAST: dict[str, tuple[str, Change]] = {
    "another name": ("received", lambda _, m: [last(m, message=RELEASE)]),
    "another ledger": ("received", lambda _, m: [last(m, ledger=FAR)]),
    "a commitment": ("received", lambda _, m: [last(m, commitment="ab" * 32)]),
    "a made-up message": ("received", lambda _, m: [m[-1], last(m, number=2, message=RELEASE)]),
    "a made-up confirmation": ("sent", lambda _, m: [last(m, seen=FAR)]),
    "all arrived": ("sent", lambda _, m: [last(m, arrived=2**N_ARRIVED - 1)]),
    "a signed confirmation of what was never sent": (
        "sent",
        lambda pair, m: [signed(pair, m[-1], TWO, seen=Mark(9, b"\1" * 32))],
    ),
    "a signed confirmation of something else": (
        "sent",
        lambda pair, m: [signed(pair, m[-1], TWO, seen=Mark(1, b"\1" * 32))],
    ),
}


def test_who_has_seen_a_message_and_denies_that_it_arrived_is_named(pair):
    """Its stamp covers the message, and says that it did not arrive; its log does not have it."""
    pair.deliver(pair.send(ONE, 0))
    pair.send(TWO, 0)
    pair.deliver(pair.send(ONE, 1))
    logs = pair.logs()
    denied = edited(without(logs[TWO], 1), "sent", lambda m: [signed(pair, m[-1], TWO, arrived=0)])
    (fault,) = faults(pair, **{TWO: denied})
    assert fault.party == TWO
    assert "message 1 of bank01 to bank02 is not in its log" in fault.what
    assert "bank02 has confirmed it" in fault.what


def last(messages: list[LoggedMessage], **update: object) -> LoggedMessage:
    return messages[-1].model_copy(update=update)


@pytest.mark.parametrize("case", OF_LAST.values(), ids=OF_LAST)
def test_what_a_party_writes_into_its_own_log_does_not_make_another_guilty(pair, case):
    pair.deliver(pair.send(ONE, 0))
    answer = pair.send(TWO, 0)
    direction, change = case
    log = edited(pair.logs()[TWO], direction, lambda found: change(pair, found))
    assert {one.party for one in faults(pair, **{TWO: log})} == {TWO}
    pair.deliver(answer, ONE)
    found = faults(pair, **{TWO: log})
    assert {one.party for one in found} == {TWO}


@pytest.mark.parametrize("update", [{"seen": FAR}, {"arrived": 3}], ids=str)
def test_a_sender_cannot_make_up_what_others_have_confirmed(pair, update):
    for number in range(2):
        data = pair.send(ONE, number)
    pair.deliver(data)  # the first was dropped
    pair.deliver(pair.send(TWO, 0), ONE)
    log = edited(pair.logs()[ONE], "received", lambda found: [last(found, **update)])
    assert {one.party for one in faults(pair, **{ONE: log})} == {ONE}


def test_who_is_judged_by_a_key_that_only_another_log_has_is_told_so(pair):
    """Two messages that do not follow each other, both signed; of whom, only that log says."""
    for number in range(2):
        pair.deliver(pair.send(ONE, number))
    first, second = next(one for one in pair.logs()[TWO].chains).messages
    broken = signed(pair, second.model_copy(update={"before": "00" * 32}), ONE)
    log = edited(pair.logs()[TWO], "received", lambda _: [first, broken])
    (fault,) = verify_logs([log]).faults
    assert fault.party == ONE
    key = pair.identities[ONE].public().fingerprint[:16]
    assert f"does not follow the one before (by its key {key} in the log of bank02)" in fault.what


def test_a_log_under_another_key_makes_nobody_guilty(pair):
    """Whoever made it, with the messages as they are or signed again: only the card can tell."""
    pair.deliver(pair.send(ONE, 0))
    pair.deliver(pair.send(TWO, 0), ONE)
    real = pair.logs()[ONE]
    other = Identity.generate(ONE)
    false = real.model_copy(update={"identity": other.public().to_bytes().hex()})
    pair.identities[ONE] = other
    again = edited(false, "sent", lambda found: [signed(pair, one, ONE) for one in found])
    fingerprints = [one.public.fingerprint[:16] for one in (real, again)]
    for log in (false, again):
        (fault,) = faults(pair, **{ONE: log.signed_by(other)})
        assert fault.party == "bank02 and bank01"
        said = "{} in that of bank02 and {} in that of bank01: one of the two logs is false, or"
        assert said.format(*fingerprints) in fault.what
        assert "Compare with the card of bank01; what they have of each other was" in fault.what


def test_a_party_whose_key_another_log_confirms_is_judged_by_it(trio):
    """One of three logs has a made-up key of another party: that one's faults are still found."""
    for receiver in (TWO, THREE):
        for number in range(2):
            trio.deliver(trio.send(ONE, number, to=receiver), receiver)
    logs = trio.logs()
    key = Identity.generate(ONE).public().signing_key.hex()
    chains = [one.model_copy(update={"key": key}) for one in logs[TWO].chains]
    logs[TWO] = logs[TWO].model_copy(update={"chains": tuple(chains)})
    (dispute,) = verify_logs(list(logs.values())).faults
    assert dispute.party == "bank02 and bank01"
    assert "nor the log of bank01" not in dispute.what
    logs[ONE] = edited(logs[ONE], "sent", lambda found: found[:1])
    found = verify_logs(list(logs.values())).faults
    assert {one.party for one in found} == {"bank02 and bank01", ONE}
    assert all("bank03" in one.what for one in found if one.party == ONE)


def test_an_earlier_key_of_a_party_is_no_fault_of_who_has_its_messages(pair):
    """After a new card: messages under both keys, and the log of the new one."""
    pair.deliver(pair.send(ONE, 0))
    before = pair.logs()[TWO].chains
    pair.identities[ONE] = Identity.generate(ONE)
    pair.keys[ONE] = pair.identities[ONE].public().signing_key
    pair.put_back(ONE, {})
    pair.deliver(pair.send(ONE, 0))
    assert len(pair.logs()[TWO].chains) > len(before)
    (fault,) = faults(pair)
    assert fault.party == "bank02 and bank01"
    assert "not compared" not in fault.what
    log = edited(pair.logs()[ONE], "sent", lambda _: [])
    assert {one.party for one in faults(pair, **{ONE: log})} == {"bank02 and bank01", ONE}


def moved(log: LogFile, one: str, other: str, number: int) -> str:
    """A byte of a signed field stands at the end of the one before: together they say the same."""
    content = json.loads(log.to_json())
    (messages,) = (c["messages"] for c in content["chains"] if c["direction"] == "received")
    message = messages[number]

    def value(name: str) -> tuple[dict[str, Any], str]:
        inside, *rest = name.split(".")
        return (message[inside], rest[0]) if rest else (message, inside)

    (here, first), (there, second) = value(one), value(other)
    if second == "message":
        here[first] = (here[first] or "00" * 32) + there[second][:1].encode().hex()
        there[second] = there[second][1:]
    else:
        here[first], there[second] = here[first] + there[second][:2], there[second][2:]
    return json.dumps(content)


@pytest.mark.parametrize(
    ("one", "other"),
    [("seen.head", "ledger.head"), ("before", "content"), ("commitment", "message")],
)
def test_what_was_signed_cannot_be_divided_otherwise(pair, tmp_path, one, other):
    """Its sender would have signed another ledger, another message before it, or another id."""
    for number in range(2):
        pair.deliver(pair.send(ONE, number))
    text = moved(pair.logs()[TWO], one, other, 1)
    (tmp_path / "log").write_text(text)
    with pytest.raises(DataError, match=f"{one.split('.')[-1]}: must have the form"):
        LogFile.read(tmp_path / "log")


def with_new_key(pair: Pair, name: str) -> None:
    """A new card and an empty store; the others go on."""
    pair.identities[name] = Identity.generate(name)
    pair.keys[name] = pair.identities[name].public().signing_key
    pair.put_back(name, {})


def test_different_keys_of_a_party_are_noticed_without_its_log(trio):
    trio.deliver(trio.send(ONE, 0))
    first = trio.identities[ONE].public().fingerprint[:16]
    logs = trio.logs()
    with_new_key(trio, ONE)
    second = trio.identities[ONE].public().fingerprint[:16]
    trio.deliver(trio.send(ONE, 0, to=THREE), THREE)
    (fault,) = verify_logs([logs[TWO], trio.logs()[THREE]]).faults
    assert fault.party == "bank02 and bank03"
    shown = f"{first} in that of bank02, {second} in that of bank03. A log is false, or bank01 had"
    assert shown in fault.what
    # In one log, too.
    trio.deliver(trio.send(ONE, 0))
    (fault,) = verify_logs([trio.logs()[TWO]]).faults
    assert fault.party == TWO
    assert f"{', '.join(sorted([first, second]))} in that of bank02" in fault.what


def test_messages_under_each_key_of_a_party_are_checked_and_counted(pair):
    """Those under its second key would be the place to leave something out."""
    for _ in range(2):
        for number in range(3):
            pair.deliver(pair.send(ONE, number))
            pair.deliver(pair.send(TWO, number), ONE)
        with_new_key(pair, ONE)
    log = pair.logs()[TWO]
    for chain in range(4):
        assert verify_logs([log]).n_messages == 12
        messages = log.chains[chain].messages
        assert len(messages) == 3
        chains = list(log.chains)
        chains[chain] = chains[chain].model_copy(update={"messages": messages[:1] + messages[2:]})
        changed = log.model_copy(update={"chains": tuple(chains)})
        found = [fault.party for fault in verify_logs([changed]).faults]
        assert found.count(TWO) >= 2  # several keys of bank01, and this
        assert set(found) == {TWO}


def test_a_message_to_an_earlier_key_makes_its_sender_not_guilty(pair):
    """The receiver has a new card, and puts what was sent to the old one into its log."""
    for number in range(2):
        pair.deliver(pair.send(ONE, number))
    old = pair.logs()[TWO]
    with_new_key(pair, TWO)
    pair.deliver(pair.send(ONE, 0, content=1))
    (chain,) = (one for one in old.chains if one.direction == "received")
    log = edited(pair.logs()[TWO], "received", lambda _: list(chain.messages))
    found = faults(pair, **{TWO: log})
    assert {one.party for one in found} == {"bank01 and bank02", "bank02 and bank01"}
    assert sum("was sent to another key of bank02" in one.what for one in found) == 2


def test_who_has_shown_more_epsilon_than_its_ledger_has_is_named(pair, monkeypatch):
    """Its entries are those that it has shown; what it says they come to is not."""
    monkeypatch.setattr("pv4fad.audit.notary.spent_in_all", lambda _: Spent(3 * 2**31, 0))
    pair.deliver(pair.send(ONE, 0))
    expected = "its ledger comes to ε = 0, and to 1.5 in message 1 to bank02"
    assert faults(pair) == (Fault(ONE, expected),)


def entered(pair: Pair, name: str, parameters: RunParameters, epsilon: Fraction) -> None:
    """A bank's program that enters an amount of its own for a run, and shows that."""
    expense = replace(expense_of(parameters, ""), epsilon=epsilon, time=NOW)
    with pair.stores[name].transaction() as tx:
        set_limit(tx, Fraction(3), NOW)
        spend(tx, expense)
    pair.deliver(pair.send(name, 7), TWO if name == ONE else ONE)


def test_an_understated_epsilon_is_found_by_the_ledger_of_another_bank_or_by_the_run(pair):
    parameters = make_class_world(1, epsilon=Fraction(2)).parameters
    entered(pair, ONE, parameters, Fraction(1, 100))
    logs = list(pair.logs().values())
    assert verify_logs(logs).faults == ()
    (fault,) = verify_logs(logs, [parameters]).faults
    # Nobody has signed a run.json.
    assert fault.party == "bank01 and payment-network"
    assert "has ε = 2, Δ = 2, noise distributed, H = 1, and in the ledger ε = 0.01," in fault.what
    entered(pair, TWO, parameters, Fraction(2))
    logs = list(pair.logs().values())
    (differ,) = verify_logs(logs).faults
    assert differ.party == "bank01 and bank02"
    assert "on different terms: ε = 0.01, Δ = 2, noise distributed, H = 1 in that" in differ.what
    (again,) = verify_logs(logs, [parameters]).faults
    assert again == fault


# A ledger that was restored.


def restored(pair: Pair, epsilon: Fraction, head: bytes | None = None) -> None:
    """Of three entries two are lost; by its own word they came to this."""
    before = pair.stores[ONE].snapshot()
    for limit in (3, 4):
        with pair.stores[ONE].transaction() as tx:
            set_limit(tx, Fraction(limit), NOW)
    with pair.stores[ONE].transaction() as tx:
        spend(tx, expense_of(make_class_world(1, epsilon=Fraction(2)).parameters, ""))
    pair.deliver(pair.send(ONE, 0))
    mark = next(iter(pair.logs()[TWO].chains)).messages[-1].ledger
    kept = {k: v for k, v in pair.stores[ONE].snapshot().items() if "permanent/ledger" not in k}
    pair.put_back(ONE, before | kept)
    with pair.stores[ONE].transaction() as tx:
        where = mark.head if head is None else head.hex()
        note_restored(tx, Restored(mark.number, where, epsilon, (TWO,), NOW))
        set_limit(tx, Fraction(9), NOW)


def test_what_a_restored_ledger_says_is_shown_with_who_holds_it(pair):
    restored(pair, Fraction(2))
    pair.deliver(pair.send(ONE, 1))
    logs = pair.logs()
    both = verify_logs(list(logs.values()))
    assert both.faults == ()
    (note,) = both.notes
    said = "its ledger was restored on 2026-01-03: entries 1 to 3 are lost, by which it had spent"
    assert note == Fault(ONE, f"{said} ε = 2 in all, as bank02 can show by what it signed")
    (note,) = verify_logs([logs[ONE]]).notes
    assert note.what.endswith("not checked: no log of another party that was given shows that")


def test_a_restored_ledger_that_forgets_what_was_spent_is_found(pair):
    """Also if it spends more than that afterwards."""
    restored(pair, Fraction(0))
    expense = expense_of(make_class_world(2, epsilon=Fraction(5)).parameters, "")
    with pair.stores[ONE].transaction() as tx:
        spend(tx, replace(expense, run_id="later"))
    assert faults(pair) == (
        Fault(ONE, "its ledger comes to ε = 0, and to 2 in message 1 to bank02"),
    )


def release(pair: Pair, run_id: str) -> None:
    """A bank's program that says of some message that it releases sums."""
    values = np.zeros(1, np.uint64)
    message = encode(NoisySums(Address(ONE, TWO, run_id), values))
    pair.deliver(pair.notary(ONE).stamped(message))


def test_sums_that_were_released_before_they_were_paid_are_found(pair):
    parameters = make_class_world(1, epsilon=Fraction(2)).parameters
    release(pair, parameters.run_id)
    expected = f"it released sums of run {parameters.run_id}"
    assert faults(pair) == (Fault(ONE, f"{expected}, and its ledger has no expense for it"),)
    entered(pair, ONE, parameters, Fraction(2))
    assert faults(pair) == (Fault(ONE, f"{expected} before its ledger had the expense"),)


@pytest.mark.parametrize(("said", "is_less"), [(Fraction(199, 100), True), (Fraction(2), False)])
def test_a_restored_ledger_has_spent_what_the_runs_cost_that_are_known(
    pair, monkeypatch, said, is_less
):
    """Of a bank whose messages have said nothing of it."""
    monkeypatch.setattr("pv4fad.audit.notary.spent_in_all", lambda _: Spent(0, 0))
    parameters = make_class_world(1, epsilon=Fraction(2)).parameters
    monkeypatch.setattr("pv4fad.audit.notary.ledger_mark", lambda _: Mark(3, bytes(32)))
    release(pair, parameters.run_id)
    with pair.stores[ONE].transaction() as tx:
        note_restored(tx, Restored(3, "00" * 32, said, (TWO,), NOW))
    logs = list(pair.logs().values())
    assert verify_logs(logs).faults == ()
    found = verify_logs(logs, [parameters]).faults
    assert [one.party for one in found] == ["bank01 and payment-network"] * is_less
    assert all("come to ε = 2, and it was restored with 1.99" in one.what for one in found)


def test_a_restored_ledger_with_another_past_is_found(pair):
    restored(pair, Fraction(2), head=bytes(32))
    (fault,) = faults(pair)
    assert fault == Fault(
        ONE, "the first 3 entries of its ledger are not those of message 1 to bank02"
    )
    (note,) = verify_logs(list(pair.logs().values())).notes
    assert "not checked" in note.what


# δ.

DAY_MS = 24 * 3600 * 1000


def charged_and_shown(pair: Pair, monkeypatch, days: list[int], limit: Fraction | None) -> None:
    """A bank's program that charges 2^-11 each of these days, whatever its limit, and says so."""
    if limit is not None:
        with pair.stores[ONE].transaction() as tx:
            set_delta_limit(tx, limit, datetime.fromtimestamp(DAY_MS / 1000, UTC))
    for number, day in enumerate([2, *days]):
        now_ms = day * DAY_MS
        monkeypatch.setattr("pv4fad.audit.notary.time.time_ns", lambda at=now_ms: at * 1_000_000)
        if number:
            with pair.stores[ONE].transaction() as tx:
                now = datetime.fromtimestamp(now_ms / 1000, UTC)
                charge(tx, "match", Fraction(1, 2**11), Fraction(1), now)
        pair.deliver(pair.send(ONE, number))


@pytest.mark.parametrize(
    ("days", "limit", "exceeded"),
    [
        ([3, 4], None, False),
        ([3, 4, 5], None, True),
        ([3, 4, 5], Fraction(1, 2**9), False),
        ([3, 4], Fraction(1, 2**12), True),
        ([3, 4, 400], None, False),
        ([3, 300, 360], None, True),
    ],
)
def test_a_limit_of_delta_that_was_exceeded_is_found(pair, monkeypatch, days, limit, exceeded):
    charged_and_shown(pair, monkeypatch, days, limit)
    found = faults(pair)
    assert [one.party for one in found] == ([ONE] if exceeded else [])
    assert all("its limit of δ was exceeded" in one.what for one in found)

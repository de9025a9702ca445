"""Live messages are in chains that are signed at intervals: what is changed there is found."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from tests.kit.in_threads import make_card

from pv4fad.audit import verify_live
from pv4fad.audit.live_marks import LiveMark, MarkLog, statement
from pv4fad.audit.log_file import LogFile, LoggedLedger
from pv4fad.audit.stamp import Mark
from pv4fad.audit.verify import verify_logs
from pv4fad.deployment import live_chain
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.live_chain import CHAIN_BYTES, LiveChain
from pv4fad.deployment.live_keys import Handshake, LiveSession, welcome
from pv4fad.deployment.party_folder import read_identity
from pv4fad.errors import DataError, ProtocolError
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.store.store import MemoryStore

S, B = PAYMENT_NETWORK, "bank01"
STORES = {name: MemoryStore(name) for name in (S, B)}
CARDS = {name: make_card(store, "bank") for name, store in STORES.items()}
KEYS = {name: Correspondence(read_identity(store), CARDS) for name, store in STORES.items()}
EVERY = 4


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(live_chain, "MARK_EVERY", EVERY)


def session(folder) -> tuple[LiveSession, LiveSession]:
    logs = {name: MarkLog.of_folder(folder / name) for name in (S, B)}
    handshake = Handshake(KEYS[S], B, logs[S])
    answer, theirs = welcome(KEYS[B], S, handshake.hello(), logs[B])
    return handshake.finish(answer), theirs


def talk(ours: LiveSession, theirs: LiveSession, n: int, lost: tuple[int, ...] = ()) -> None:
    for number in range(1, n + 1):
        query = ours.seal(b"query %d" % number)
        if number in lost:
            continue
        count, question = theirs.open(query)
        assert (count, question) == (number, b"query %d" % number)
        assert ours.open(theirs.seal(b"reply to " + question))[1] == b"reply to " + question


def log_of(folder, name: str) -> LogFile:
    return LogFile(
        party=name,
        identity=read_identity(STORES[name]).public().to_bytes().hex(),
        chains=(),
        ledger=LoggedLedger(salt="", entries=()),
        live=MarkLog.read(folder / name / "live" / "marks.jsonl"),
    )


def logs_of(folder) -> dict[str, LogFile]:
    return {name: log_of(folder, name) for name in (S, B)}


def audited(logs: dict[str, LogFile]):
    return verify_logs([LogFile.model_validate_json(log.to_json()) for log in logs.values()])


@pytest.fixture
def logs(tmp_path):
    """Of two sessions, one with ticks that were lost."""
    talk(*session(tmp_path), 10)
    talk(*session(tmp_path), 13, lost=(3, 6, 7))
    return logs_of(tmp_path)


def test_logs_of_both_ends_fit_together_and_count_what_was_lost(logs):
    found = audited(logs)
    assert found.faults == ()
    # Up to the last mark: 8 + 12 queries, 8 + 8 replies (10 arrived in the second session).
    assert found.n_live == 36
    assert found.n_live_missing == 3
    assert {mark.missing for mark in logs[B].live} == {0, 1, 3}
    for one in logs.values():
        assert audited({one.party: one}).faults == ()


def test_marks_of_many_sessions_are_not_searched_for_each_of_them(tmp_path, monkeypatch):
    """Every session has some, however short it is."""
    for _ in range(20):
        talk(*session(tmp_path), 2)
    logs, n_looks, way = logs_of(tmp_path), 0, verify_live._way

    def counted(mark: LiveMark):
        nonlocal n_looks
        n_looks += 1
        return way(mark)

    monkeypatch.setattr(verify_live, "_way", counted)
    found = audited(logs)
    assert (found.n_live, found.faults) == (80, ())
    assert n_looks == sum(len(log.live) for log in logs.values()) == 160


def test_marks_confirm_those_of_the_other_end(logs):
    replies = [mark for mark in logs[S].live if mark.sender == B]
    queries = {(mark.session, mark.number): mark.head for mark in logs[B].live if mark.sender == S}
    assert any(reply.seen_number for reply in replies)
    for reply in replies:
        if reply.seen_number:
            assert queries[reply.session, reply.seen_number] == reply.seen_head


def test_every_message_is_longer_by_the_same(tmp_path):
    ours, _ = session(tmp_path)
    assert {len(ours.seal(bytes(100))) for _ in range(3 * EVERY)} == {
        16 + 8 + CHAIN_BYTES + 100 + 16
    }


def changed(log: LogFile, position: int, **update: object) -> LogFile:
    marks = list(log.live)
    marks[position] = marks[position].model_copy(update=update)
    return log.model_copy(update={"live": tuple(marks)})


def position_of(log: LogFile, sender: str, number: int) -> int:
    return next(i for i, one in enumerate(log.live) if (one.sender, one.number) == (sender, number))


@pytest.mark.parametrize("owner", [S, B])
@pytest.mark.parametrize("sender", [S, B])
@pytest.mark.parametrize(
    "update",
    [{"head": "00" * 32}, {"number": 5}, {"time_ms": 1}, {"seen_head": "11" * 32}],
    ids=str,
)
def test_a_changed_mark_is_found_and_its_owner_named(logs, owner, sender, update):
    logs[owner] = changed(logs[owner], position_of(logs[owner], sender, 8), **update)
    faults = audited(logs).faults
    assert {fault.party for fault in faults} == {owner}
    assert any("is not what was signed" in one.what for one in faults if one.party == owner)


@pytest.mark.parametrize("sender", [S, B])
def test_a_mark_that_its_sender_left_out_is_found(logs, sender):
    log, at = logs[sender], position_of(logs[sender], sender, 4)
    logs[sender] = log.model_copy(update={"live": log.live[:at] + log.live[at + 1 :]})
    (fault, *_) = audited(logs).faults
    assert fault.party == sender
    assert "does not have the live mark 4" in fault.what


def test_a_mark_that_was_confirmed_and_left_out_by_its_receiver_is_found(logs):
    log, at = logs[B], position_of(logs[B], S, 4)
    logs[B] = log.model_copy(update={"live": log.live[:at] + log.live[at + 1 :]})
    (fault,) = audited(logs).faults
    assert (fault.party, "which it has confirmed" in fault.what) == (B, True)
    # Alone, its own log contradicts itself.
    assert [one.party for one in audited({B: logs[B]}).faults] == [B]


def test_marks_in_another_order_are_found(logs):
    for owner in (S, B):
        log = logs[owner]
        turned = log.model_copy(update={"live": log.live[::-1]})
        faults = audited(logs | {owner: turned}).faults
        assert {fault.party for fault in faults} == {owner}
        assert all("after number" in fault.what for fault in faults)


def test_a_replaced_tick_is_found_though_its_sender_signs_again(logs):
    """The payment network puts another query into its log, and a valid signature on it."""
    at = position_of(logs[S], S, 4)
    mark = logs[S].live[at]
    head, seen = b"\1" * 32, Mark(mark.seen_number, bytes.fromhex(mark.seen_head))
    said = statement(bytes.fromhex(mark.session), (S, B), Mark(4, head), seen, mark.time_ms)
    logs[S] = changed(logs[S], at, head=head.hex(), signature=KEYS[S].sign(said).hex())
    assert logs[S].live[at].is_signed
    faults = audited(logs).faults
    assert {fault.party for fault in faults} == {S}
    assert any("signed two different ones as the live mark 4" in fault.what for fault in faults)


# At once.


def chains(folder):
    logs = {name: MarkLog.of_folder(folder / name) for name in (S, B)}
    return LiveChain(KEYS[S], B, b"s" * 16, logs[S]), LiveChain(KEYS[B], S, b"s" * 16, logs[B])


def test_a_tick_that_does_not_follow_the_one_before_is_refused(tmp_path):
    ours, theirs = chains(tmp_path)
    theirs.opened(1, ours.stamped(1, b"query"))
    other = LiveChain(KEYS[S], B, b"s" * 16, MarkLog(tmp_path / "other"))
    other.stamped(1, b"another query")
    with pytest.raises(ProtocolError, match="live message 2 of payment-network does not follow"):
        theirs.opened(2, other.stamped(2, b"query"))
    with pytest.raises(ProtocolError, match="without its chain"):
        theirs.opened(2, b"short")
    assert theirs.opened(2, ours.stamped(2, b"query")) == b"query"


@pytest.mark.parametrize("position", [40, 50, 60, 90, 140, CHAIN_BYTES])
def test_a_mark_that_was_not_signed_for_these_messages_is_refused(tmp_path, position):
    """Whoever has the key of the session could seal it, and only the sender can sign."""
    ours, theirs = chains(tmp_path)
    for number in range(1, EVERY):
        theirs.opened(number, ours.stamped(number, b"query"))
    stamped = bytearray(ours.stamped(EVERY, b"query"))
    stamped[position] ^= 1
    with pytest.raises(ProtocolError, match="payment-network has not signed its live message 4"):
        theirs.opened(EVERY, bytes(stamped))


def test_a_mark_that_confirms_another_than_was_sent_is_refused(tmp_path):
    """The payment network would be asked for it otherwise."""
    ours, theirs = chains(tmp_path)
    other = LiveChain(KEYS[S], B, b"s" * 16, MarkLog(tmp_path / "other"))
    theirs.opened(1, other.stamped(1, b"another query"))
    ours.stamped(1, b"query")
    with pytest.raises(ProtocolError, match="bank01 confirms a live mark that it was not sent"):
        ours.opened(1, theirs.stamped(1, b"reply"))


def test_long_sessions_are_marked_at_intervals_and_short_ones_have_marks_too(tmp_path, monkeypatch):
    monkeypatch.setattr(live_chain, "MARK_EVERY", 16)
    ours, theirs = chains(tmp_path)
    for number in range(1, 60):
        theirs.opened(number, ours.stamped(number, b"query"))
    marks = MarkLog.read(tmp_path / B / "live" / "marks.jsonl")
    assert [mark.number for mark in marks] == [1, 2, 4, 8, 16, 32, 48]


@pytest.mark.parametrize("last", [0, 1, 2, 4, 8, 16, 32])
def test_a_sender_that_leaves_out_the_marks_is_refused_until_the_next_one(
    tmp_path, monkeypatch, last
):
    """An auditor would not know how many messages there were."""
    monkeypatch.setattr(live_chain, "MARK_EVERY", 16)
    ours, theirs = chains(tmp_path)
    for number in range(1, last + 1):
        theirs.opened(number, ours.stamped(number, b"query"))
    unmarked = (one for one in range(last + 1, 1024) if not live_chain._is_mark(one))
    for number in islice(unmarked, 4 * min(max(last, 1), 16)):
        theirs.opened(number, ours.stamped(number, b"query"))
    for number in unmarked:
        with pytest.raises(ProtocolError, match=f"not marked its live messages since .* {last}:"):
            theirs.opened(number, ours.stamped(number, b"query"))
    theirs.opened(1024, ours.stamped(1024, b"query"))
    theirs.opened(1025, ours.stamped(1025, b"query"))


def test_marks_that_are_lost_on_the_way_are_no_reason_to_refuse(tmp_path, monkeypatch):
    monkeypatch.setattr(live_chain, "MARK_EVERY", 16)
    ours, theirs = chains(tmp_path)
    for number in range(1, 300):
        data = ours.stamped(number, b"query")
        if number <= 16 or not (live_chain._is_mark(number) and number % 64):  # three of four
            theirs.opened(number, data)


def test_live_messages_and_a_log_under_another_key_make_nobody_guilty(logs):
    """Somebody else could have made it: the marks in the other log are of the real key."""
    identity = Identity.generate(S).public().to_bytes().hex()
    for live in (logs[S].live, ()):
        false = logs[S].model_copy(update={"identity": identity, "live": live})
        (fault,) = audited({S: false, B: logs[B]}).faults
        assert fault.party == "bank01 and payment-network"
        assert "nor the log of payment-network with any other" in fault.what


# The file.


def test_half_of_a_line_is_dropped_and_the_log_goes_on(tmp_path):
    talk(*session(tmp_path), EVERY)
    path = tmp_path / B / "live" / "marks.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert len(MarkLog.read(path)) == 6
    talk(*session(tmp_path), EVERY)
    assert len(MarkLog.read(path)) == 12
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(DataError, match="is damaged"):
        MarkLog.read(path)


@pytest.mark.parametrize("rest", [b"", b"{", b"x" * 10_000])
def test_a_long_log_goes_on_without_being_read(tmp_path, monkeypatch, rest):
    """At 20 messages a second it has hundreds of megabytes after a year."""
    talk(*session(tmp_path), 4 * EVERY)
    path = tmp_path / B / "live" / "marks.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", lambda _: pytest.fail("the whole file was read"))
        talk(*session(tmp_path), EVERY)
    assert path.read_bytes()[: len(whole)] == whole
    assert len(MarkLog.read(path)) == whole.count(b"\n") + 6


def test_a_mark_shows_no_secret_and_nothing_of_what_was_asked(tmp_path):
    talk(*session(tmp_path), EVERY)
    text = (tmp_path / S / "live" / "marks.jsonl").read_text()
    assert set(json.loads(text.splitlines()[0])) == set(LiveMark.model_fields)
    identity = read_identity(STORES[S])
    for secret in (identity.signing_secret, identity.pairwise_secret, b"query"):
        assert secret.hex() not in text
    assert "query" not in text

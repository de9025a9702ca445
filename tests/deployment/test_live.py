"""Live messages: only the two parties read them, each once, and nothing waits behind anything."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.kit.hub_world import HubWorld, Scribe
from tests.kit.waiting import comes_true

from pv4fad.audit.live_marks import MARKS_FILE, LiveMark, MarkLog
from pv4fad.deployment import live_chain
from pv4fad.deployment.hub import connection, live
from pv4fad.deployment.hub.live import Kind, LiveQuestions, NoAnswerError, answering
from pv4fad.deployment.hub.switch import (
    QUEUE_MESSAGES,
    What,
    _Line,
    live_message,
    read_live_message,
)
from pv4fad.deployment.live_keys import MOST_MESSAGES, Handshake, LiveSession, welcome
from pv4fad.errors import DataError, ProtocolError, StoreError, WireError
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

BANKS = ["bank01", "bank02"]
TICK = bytes(270_000)
PATIENCE_S = 300


class NotKept(MarkLog):
    """Marks that no test here looks at."""

    def append(self, mark: LiveMark) -> None: ...


LOG = NotKept(Path("not written"))


@pytest.fixture
def world(tmp_path):
    return HubWorld(tmp_path, BANKS)


def sessions(world) -> tuple[LiveSession, LiveSession]:
    network, bank = world.correspondence(PAYMENT_NETWORK), world.correspondence("bank01")
    handshake = Handshake(network, "bank01", LOG)
    answer, theirs = welcome(bank, PAYMENT_NETWORK, handshake.hello(), LOG)
    return handshake.finish(answer), theirs


# Keys.


def test_both_sides_have_the_same_keys_and_each_message_opens_once(world):
    ours, theirs = sessions(world)
    for text in (b"", b"question", b"\0" * 1000):
        sealed = ours.seal(text)
        assert theirs.open(sealed)[1] == text
        with pytest.raises(ProtocolError, match="was seen before"):
            theirs.open(sealed)
        assert ours.open(theirs.seal(text[::-1]))[1] == text[::-1]
    first, second = ours.seal(b"1"), ours.seal(b"2")
    assert theirs.open(second)[1] == b"2"  # the first got lost
    with pytest.raises(ProtocolError, match="was seen before"):
        theirs.open(first)


def test_a_changed_message_or_one_of_another_session_or_direction_is_refused(world):
    ours, theirs = sessions(world)
    other, _ = sessions(world)
    sealed = ours.seal(b"question")
    for position in (0, 17, 30, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(ProtocolError):
            theirs.open(bytes(changed))
    for wrong in (other.seal(b"question"), b"", sealed[:20]):
        with pytest.raises(ProtocolError, match="of another session"):
            theirs.open(wrong)
    with pytest.raises(ProtocolError, match="the other party has not sealed"):
        ours.open(sealed)  # sent back by the hub
    assert theirs.open(sealed)[1] == b"question"


def test_sessions_have_keys_of_their_own_and_a_replayed_hello_gives_nobody_a_key(world):
    network, bank = world.correspondence(PAYMENT_NETWORK), world.correspondence("bank01")
    handshake = Handshake(network, "bank01", LOG)
    hello = handshake.hello()
    answer, first = welcome(bank, PAYMENT_NETWORK, hello, LOG)
    session = handshake.finish(answer)
    _, again = welcome(bank, PAYMENT_NETWORK, hello, LOG)
    sealed = session.seal(b"recorded")
    with pytest.raises(ProtocolError, match="has not sealed"):
        again.open(sealed)
    assert first.open(sealed)[1] == b"recorded"


def test_a_handshake_with_another_party_fails(world, tmp_path):
    network, bank = world.correspondence(PAYMENT_NETWORK), world.correspondence("bank01")
    hello = Handshake(network, "bank01", LOG).hello()
    with pytest.raises(ProtocolError, match="has not sealed"):
        welcome(world.correspondence("bank02"), PAYMENT_NETWORK, hello, LOG)
    with pytest.raises(ProtocolError, match="has not sealed"):
        welcome(bank, "bank02", hello, LOG)
    stranger = HubWorld(tmp_path / "other", BANKS).correspondence(PAYMENT_NETWORK)
    with pytest.raises(ProtocolError, match="has not sealed"):
        welcome(bank, PAYMENT_NETWORK, Handshake(stranger, "bank01", LOG).hello(), LOG)
    for short in (b"", hello[:10], hello[:40]):
        with pytest.raises(ProtocolError):
            welcome(bank, PAYMENT_NETWORK, short, LOG)
    one, other = Handshake(network, "bank01", LOG), Handshake(network, "bank01", LOG)
    answer, _ = welcome(bank, PAYMENT_NETWORK, one.hello(), LOG)
    with pytest.raises(ProtocolError, match="of another session"):
        other.finish(answer)


def test_a_session_ends_before_its_counts_do(world):
    ours, _ = sessions(world)
    ours.sent = MOST_MESSAGES
    assert ours.is_used_up
    with pytest.raises(ProtocolError, match="begin another"):
        ours.seal(b"")


# Through the hub.


def in_loop(work):
    """Run it in an event loop."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def reversed_(question: bytes) -> bytes:
    return question[::-1]


async def answered(questions, bank, question):
    """As soon as the bank is connected."""
    while True:
        try:
            return await questions.ask(bank, question, 5)
        except NoAnswerError:
            await asyncio.sleep(0.05)


def test_questions_are_answered_by_the_bank_they_are_for(world):
    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            await asyncio.gather(*(answered(questions, bank, b"") for bank in BANKS))
            asked = [(bank, bytes([i]) + TICK) for i in range(20) for bank in BANKS]
            return asked, await asyncio.gather(*(questions.ask(*one, 30) for one in asked))

    with (
        world.hub(),
        answering(world.folder("bank01"), world.correspondence("bank01"), reversed_),
        answering(world.folder("bank02"), world.correspondence("bank02"), bytes.upper),
    ):
        asked, answers = in_loop(work())
    for (bank, question), answer in zip(asked, answers, strict=True):
        assert answer == (question[::-1] if bank == "bank01" else question.upper())


def test_a_bank_whose_answers_name_no_question_stops_no_other(world, caplog, monkeypatch):
    """A message that it has sealed, so it is well-formed up to there."""

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            await answered(questions, "bank02", b"first")
            while "does not say" not in caplog.text:
                with pytest.raises(NoAnswerError):
                    await questions.ask("bank01", TICK, 0.5)
            return await questions.ask("bank02", b"question", 30)

    def take_from(bank, sender, body):
        said = honest(bank, sender, body)
        if bank._own.name == "bank01" and said[0] == Kind.SEALED:
            (session,) = bank._sessions.values()
            said = said[:1] + session.seal(b"short")
        return said

    honest = live._LiveAnswers._take_from
    monkeypatch.setattr(live._LiveAnswers, "_take_from", take_from)
    with (
        world.hub(),
        answering(world.folder("bank01"), world.correspondence("bank01"), bytes.upper),
        answering(world.folder("bank02"), world.correspondence("bank02"), bytes.upper),
    ):
        assert in_loop(work()) == b"QUESTION"


def test_a_bank_that_is_away_slow_or_restarted_does_not_hold_up_another(world, monkeypatch):
    held = threading.Event()

    def slow(question: bytes) -> bytes:
        held.wait(PATIENCE_S)
        return question

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            assert await answered(questions, "bank01", b"1") == b"1"
            with pytest.raises(NoAnswerError, match="bank02 is not connected"):
                await questions.ask("bank02", b"2", 30)
            with answering(world.folder("bank02"), world.correspondence("bank02"), slow):
                while not questions._banks["bank02"].session:
                    with pytest.raises(NoAnswerError):
                        await questions.ask("bank02", b"slow", 0.2)
                late = [questions.ask("bank02", TICK, 0.5) for _ in range(200)]
                late = asyncio.gather(*late, return_exceptions=True)
                for number in range(20):
                    assert await questions.ask("bank01", bytes([number]), 30) == bytes([number])
                assert all(isinstance(one, NoAnswerError) for one in await late)
                held.set()
            with answering(world.folder("bank02"), world.correspondence("bank02"), reversed_):
                assert await answered(questions, "bank02", b"ab") == b"ba"

    with (
        world.hub(),
        answering(world.folder("bank01"), world.correspondence("bank01"), bytes),
    ):
        in_loop(work())


def test_a_hub_that_was_killed_is_found_again_and_what_was_asked_is_given_up(world):
    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            with world.hub():
                assert await answered(questions, "bank01", b"before") == b"erofeb"
            with pytest.raises(NoAnswerError):
                await questions.ask("bank01", b"meanwhile", 0.3)
            with world.hub():
                assert await answered(questions, "bank01", b"after") == b"retfa"

    with answering(world.folder("bank01"), world.correspondence("bank01"), reversed_):
        in_loop(work())


def test_a_bank_that_was_away_for_long_is_asked_in_a_new_session(world):
    """Marks were lost while it was away, and the next one is hundreds of questions from now."""

    async def work():
        network, n_failed = world.correspondence(PAYMENT_NETWORK), 0
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            await answered(questions, "bank01", b"before")
            before = questions._banks["bank01"].session
            for _ in range(600):
                before.seal(b"lost")
            for _ in range(20):
                try:
                    assert await questions.ask("bank01", b"ab", 30) == b"ba"
                except NoAnswerError:
                    n_failed += 1
            assert questions._banks["bank01"].session is not before
        return n_failed

    with world.hub(), answering(world.folder("bank01"), world.correspondence("bank01"), reversed_):
        assert in_loop(work()) == 1


def test_a_bank_whose_marks_were_lost_is_asked_in_a_new_session(world):
    """Such as while its disk was full."""
    questions = LiveQuestions(world.folder(PAYMENT_NETWORK), world.correspondence(PAYMENT_NETWORK))
    ours, theirs = sessions(world)
    known = questions._banks["bank01"] = live._Bank(session=ours)
    unmarked = []
    for number in range(1, 10):
        reply = theirs.seal(bytes(8))
        if not live_chain._is_mark(number):
            unmarked.append(live_message(What.MESSAGE, "bank01", bytes([Kind.SEALED]) + reply))
    for reply in unmarked[:-1]:
        questions._take(reply)
        assert known.session is ours
    questions._take(unmarked[-1])
    assert known.session is None


def test_a_slow_bank_that_loses_its_connection_answers_again(world):
    """With more questions waiting than it keeps, and one at work that it cannot answer any more."""
    begun, held = threading.Event(), threading.Event()

    def slow(question: bytes) -> bytes:
        if question == b"slow":
            begun.set()
            held.wait(PATIENCE_S)
        return question

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            with world.hub():
                await answered(questions, "bank01", b"before")
                many = [
                    questions.ask("bank01", b"slow", 1.0) for _ in range(4 * live._MOST_WAITING)
                ]
                late = await asyncio.gather(*many, return_exceptions=True)
                assert all(isinstance(one, NoAnswerError) for one in late)
                assert begun.is_set()
            held.set()
            with world.hub():
                assert await answered(questions, "bank01", b"after") == b"after"

    with answering(world.folder("bank01"), world.correspondence("bank01"), slow):
        in_loop(work())


@pytest.mark.parametrize("broken", ["_read", "_work"])
def test_a_bank_connects_again_whatever_ends_one_half_of_its_connection(
    world, monkeypatch, caplog, broken
):
    half, n_broken = getattr(live, broken), 0

    async def breaks(*arguments):
        nonlocal n_broken
        n_broken += 1
        if n_broken == 1:
            raise RuntimeError("can't start new thread")
        await half(*arguments)

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            return await answered(questions, "bank01", b"ab")

    monkeypatch.setattr(live, broken, breaks)
    with (
        world.hub(),
        answering(world.folder("bank01"), world.correspondence("bank01"), reversed_),
    ):
        assert in_loop(work()) == b"ba"
    assert n_broken > 1
    assert "not connected: an unexpected error" in caplog.text


def test_the_payment_network_connects_again_when_its_folder_can_be_read_again(
    world, monkeypatch, caplog
):
    """Its key, such as while certificates are replaced."""
    dial, n_dialled = connection.dial_async, 0

    def fails_once(folder):
        nonlocal n_dialled
        n_dialled += folder.path == world.folder(PAYMENT_NETWORK).path
        if n_dialled == 1:
            raise DataError("party.toml cannot be read")
        return dial(folder)

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            return await answered(questions, "bank01", b"ab")

    with (
        world.hub(),
        answering(world.folder("bank01"), world.correspondence("bank01"), reversed_),
        monkeypatch.context() as patched,
    ):
        patched.setattr(connection, "dial_async", fails_once)
        assert in_loop(work()) == b"ba"
    assert "not connected: party.toml cannot be read" in caplog.text


def test_both_ends_keep_the_marks_of_what_went_through_the_hub(world, monkeypatch):
    monkeypatch.setattr(live_chain, "MARK_EVERY", 8)
    n = 20

    async def work():
        own = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), own) as questions:
            await answered(questions, "bank01", TICK)
            for _ in range(n):
                assert await questions.ask("bank01", TICK, 30) == TICK

    with world.hub(), answering(world.folder("bank01"), world.correspondence("bank01"), bytes):
        in_loop(work())
    ends = [
        MarkLog.read(world.folder(one).path / MARKS_FILE) for one in (PAYMENT_NETWORK, "bank01")
    ]
    assert set(ends[0]) == set(ends[1])
    ways = {(mark.sender, mark.number) for mark in ends[0]}
    assert ways >= {(one, 8 * k) for one in (PAYMENT_NETWORK, "bank01") for k in (1, 2)}


def test_a_question_that_cannot_be_answered_is_logged_and_the_next_one_answered(world, caplog):
    def picky(question: bytes) -> bytes:
        if question == b"bad":
            raise ValueError("on purpose")
        return question

    async def work():
        network = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), network) as questions:
            await answered(questions, "bank01", b"good")
            with pytest.raises(NoAnswerError, match=r"has not answered in 0\.3 s"):
                await questions.ask("bank01", b"bad", 0.3)
            assert await questions.ask("bank01", b"good", 30) == b"good"

    with world.hub(), answering(world.folder("bank01"), world.correspondence("bank01"), picky):
        in_loop(work())
    assert "a live question was not answered" in caplog.text


def test_live_messages_pass_while_letters_of_many_parts_are_on_their_way(world):
    """And the hub keeps neither."""
    network = Scribe(PAYMENT_NETWORK)
    network.letters = {bank: [np.zeros(10**7, np.uint32)] * 3 for bank in BANKS}
    passed = 0
    # Until some have passed, the job is not over.
    bank = Scribe("bank02", before_handling=lambda: comes_true(lambda: passed > 3, PATIENCE_S))

    async def work():
        nonlocal passed
        own = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), own) as questions:
            await answered(questions, "bank01", TICK)
            world.start("train")
            while world.status().state == "running":
                assert await questions.ask("bank01", TICK, 30) == TICK
                passed += 1

    with (
        world.hub(),
        world.stations(network, bank),
        answering(world.folder("bank01"), world.correspondence("bank01"), bytes),
    ):
        in_loop(work())
        assert world.status().state == "finished"
    assert passed > 3


def test_banks_and_aggregator_cannot_ask_anybody(world):
    def refused(name, receiver):
        with connection.dial(world.folder(name)) as channel:
            message = live_message(What.MESSAGE, receiver, b"")
            call = channel.stream_stream(connection.path(connection.LIVE))(iter([message]))
            with pytest.raises(grpc.RpcError) as error:
                list(call)
            return error.value.details()

    with world.hub():
        assert refused("bank01", "bank02") == "bank01 may not send live messages to bank02"
        assert "may not send" in refused(AGGREGATOR, "bank02")
        assert "may not send" in refused(PAYMENT_NETWORK, AGGREGATOR)


def test_a_bank_that_floods_fills_its_own_queue_only():
    line = _Line(None)
    taken = [line.put("bank01", bytes([i])) for i in range(QUEUE_MESSAGES + 5)]
    assert taken == [True] * QUEUE_MESSAGES + [False] * 5
    assert line.put("bank02", b"b")
    assert [line.next(), line.next(), line.next()] == [b"\0", b"b", b"\1"]
    big = bytes(5 * 2**20)
    assert line.put("bank03", big)
    assert not line.put("bank03", big)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\5abc", b"\7\1a", b"\0\2\xff\xff"])
def test_what_is_no_live_message_is_refused(data):
    with pytest.raises(WireError):
        read_live_message(data)


def test_what_a_bank_cannot_answer_is_counted_every_time_and_logged_once(world, caplog):
    """Such as on a full disk: up to 20 times a second."""

    def full(_: bytes) -> bytes:
        raise StoreError("ticks.json cannot be written")

    failed: list[Exception] = []
    answers = live._LiveAnswers(world.correspondence("bank01"), full, LOG, failed.append)
    handshake = Handshake(world.correspondence(PAYMENT_NETWORK), "bank01", LOG)

    def take(kind: Kind, body: bytes) -> bytes | None:
        return answers.take(live_message(What.MESSAGE, PAYMENT_NETWORK, bytes([kind]) + body))

    answer = take(Kind.HELLO, handshake.hello())
    session = handshake.finish(read_live_message(answer)[2][1:])
    assert [take(Kind.SEALED, session.seal(b"question")) for _ in range(3)] == [None] * 3
    assert len(failed) == 3
    assert caplog.text.count("ticks.json cannot be written") == 1


def test_problems_that_alternate_do_not_fill_the_log(world, caplog, monkeypatch):
    """They are counted every time; one that stays is written when the time has come."""
    now = [100.0]
    monkeypatch.setattr("pv4fad.logs.time.monotonic", lambda: now[0])
    failed: list[Exception] = []
    answers = live._LiveAnswers(world.correspondence("bank01"), bytes, LOG, failed.append)
    for _ in range(20):
        answers._note(StoreError("the disk is full"))
        answers._note(ValueError("secret"))
    assert len(failed) == 40
    assert [one.message for one in caplog.records] == [
        "a live question was not answered: the disk is full"
    ]
    now[0] += 1.0
    for _ in range(3):
        answers._note(ValueError("secret"))
    _, second = caplog.records
    assert second.message == "a live question was not answered: ValueError"
    assert second.exc_info is not None


def test_who_sends_nonsense_does_not_fill_the_log(world, caplog):
    network, bank = world.correspondence(PAYMENT_NETWORK), world.correspondence("bank01")
    questions = LiveQuestions(world.folder(PAYMENT_NETWORK), network)
    questions._banks["bank01"] = live._Bank(handshake=Handshake(network, "bank01", LOG))
    answers = live._LiveAnswers(bank, bytes, LOG)
    for number in range(50):
        body = bytes([Kind.WELCOME, number])
        questions._take(live_message(What.MESSAGE, "bank01", body))
        answers.take(live_message(What.MESSAGE, "bank02", body))
    assert [one.message for one in caplog.records] == [
        "bank01: a live welcome of another session",
        "a live message was refused: bank02 may not ask",
    ]


def test_a_bank_answers_the_payment_network_only(world, caplog):
    answers = live._LiveAnswers(world.correspondence("bank01"), bytes, LOG)
    hello = Handshake(world.correspondence("bank02"), "bank01", LOG).hello()
    message = live_message(What.MESSAGE, "bank02", bytes([Kind.HELLO]) + hello)
    assert answers.take(message) is None
    assert "bank02 may not ask" in caplog.text

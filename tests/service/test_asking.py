"""Live decisions: right whatever banks do, and nothing of what is asked shows in sizes or times."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import tempfile
from collections import Counter
from itertools import cycle

import numpy as np
import polars as pl
import pytest
from tests.kit.live_banks import (
    BANKS,
    JOURNAL_KEY,
    TICK_S,
    Banks,
    all_decided,
    asking,
    live_federation,
    one_tick,
    settled,
)

from pv4fad.errors import WorkerError
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.lead.scoring_job import JobNotes, ScoringJob
from pv4fad.protocol.tables import hashed_id
from pv4fad.protocol.wire import decode, encode
from pv4fad.service.asking import model as asked_model
from pv4fad.service.asking import stored
from pv4fad.service.asking.knowledge import Knowledge
from pv4fad.service.asking.line import Line
from pv4fad.service.asking.stored import Following
from pv4fad.service.decisions import HOWS
from pv4fad.service.journal import Journal

PATIENCE_S = 120


@pytest.fixture(scope="module")
def world():
    """Every answer matters: all payments ask about all their accounts at banks."""
    return live_federation().telling()


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path, JOURNAL_KEY) as opened:
        yield opened


def in_loop(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def same(table, wanted) -> bool:
    columns = ["MessageId", "Alert", "Level", "Reasons"]
    return table.select(columns).equals(wanted.select(columns)) and np.allclose(
        table["Score"], wanted["Score"], rtol=1e-12
    )


def asked_pairs(journal) -> list[tuple[str, int]]:
    return [
        pair
        for note in journal.questions()
        if note["bits"] is None
        for pair in zip(note["ids"], note["sets"], strict=True)
    ]


# Decisions.


def test_decisions_are_those_of_somebody_who_sees_all_records(world, journal):
    payments = [world.some(slice(start, start + 100)) for start in range(0, 393, 100)]
    banks = Banks(world)

    async def work():
        async with asking(world, journal, banks) as engine:
            first = await asyncio.gather(*(all_decided(engine, one) for one in payments))
            n_sent = engine.knowledge.n_known
            again = [await all_decided(engine, one) for one in payments]
            return first, again, n_sent, engine.knowledge.n_known, engine.status()

    first, again, n_known, still_known, status = in_loop(work())
    how = Counter(one for _, ways in first for one in ways)
    for (table, _), (table_again, _), one in zip(first, again, payments, strict=True):
        assert same(table, world.trusted(one))
        assert same(table_again, table)
    assert how["banks asked"] > 250
    assert how["account not yet matched"] > 5
    assert set(how) <= set(HOWS) - {"bank not answering"}
    assert 0.1 < np.mean([table["Alert"].mean() for table, _ in first]) < 0.9
    # Each (account, kind) once, and all of it on disk.
    asked = asked_pairs(journal)
    assert len(asked) == len(set(asked)) == sum(one.counts.questions for one in status) > 300
    assert n_known == still_known > 100


def test_a_payment_that_asks_nothing_is_decided_at_once(journal):
    """While no tick passes: those are decided that depend on no bank, in the same batch."""
    world = live_federation()

    async def work():
        async with asking(world, journal, Banks(world), passes=False) as engine:
            decided = engine.decide(world.payments)
            return await anext(decided)

    part = in_loop(work())
    assert len(part.rows) > 300
    assert set(part.how) <= {"local only", "account not yet matched"}


def test_known_bits_of_batches_are_used_and_batches_know_what_live_questions_told(world, journal):
    copy = world.copied()
    payments = world.some(slice(0, 60))
    truth, sets = world.truth(payments), len(world.judging.sets)
    half = np.flatnonzero(world.matched(payments))[::2]
    ids = [hashed_id(payments.keys[one]) for one in half]
    told = [
        (name, kind, int(truth[one, kind]))
        for name, one in zip(ids, half, strict=True)
        for kind in range(sets)
    ]
    JobNotes(copy.store, world.run_id).learn(told, sets)
    banks = Banks(world)

    async def work():
        async with asking(copy, journal, banks) as engine:
            return await all_decided(engine, payments)

    table, _ = in_loop(work())
    assert same(table, world.trusted(payments))
    asked = {name for name, _ in asked_pairs(journal)}
    assert asked
    assert not asked & {name.decode() for name in ids}
    # When a model is loaded again, the store has it all, and the journal nothing.
    before = JobNotes(copy.store, world.run_id).n_known()
    copy.stored(journal).take_over()
    after = JobNotes(copy.store, world.run_id).n_known()
    assert after[0] == before[0] + len(asked)
    assert not list(journal.questions())
    known = JobNotes(copy.store, world.run_id).known_bits(payments.keys, sets)
    answered = known != UNKNOWN
    assert np.array_equal(known[answered], truth[answered])


# Restarts.


def test_what_was_asked_and_told_survives_a_restart_and_is_not_asked_again(world, tmp_path):
    world = world.copied()
    payments = [world.some(slice(0, 100)), world.some(slice(50, 150))]
    asked = []
    for number, one in enumerate(payments):
        with Journal.open(tmp_path, JOURNAL_KEY) as journal:

            async def work(one=one, journal=journal):
                async with asking(world, journal, Banks(world)) as engine:
                    return await all_decided(engine, one)

            table, how = in_loop(work())
            assert same(table, world.trusted(one)), number
            assert "bank not answering" not in how
            asked.append(asked_pairs(journal))
    assert asked[0]
    assert asked[1]
    assert not set(asked[0]) & set(asked[1])


def test_questions_without_an_answer_are_asked_again_after_a_restart_and_stay_on_record(
    world, tmp_path
):
    world, banks = world.copied(), Banks(world)
    banks.silent = {"bank02"}
    payments = world.some(slice(0, 40))

    async def killed(journal):
        async with asking(world, journal, banks) as engine:
            waiting = asyncio.ensure_future(all_decided(engine, payments))
            while engine.knowledge.n_known < 10:
                await asyncio.sleep(0.005)
            waiting.cancel()

    with Journal.open(tmp_path, JOURNAL_KEY) as journal:
        in_loop(killed(journal))
        before = set(asked_pairs(journal))
    with Journal.open(tmp_path, JOURNAL_KEY) as journal:

        async def work():
            async with asking(world, journal, Banks(world)) as engine:
                left = set(asked_pairs(journal))
                return left, await all_decided(engine, payments)

        left, (table, how) = in_loop(work())
        assert left
        assert left < before
        assert set(asked_pairs(journal)) >= left
    assert same(table, world.trusted(payments))
    assert "bank not answering" not in how


def test_a_scoring_that_was_interrupted_goes_on_with_what_it_knew(world, journal):
    """What live questions have told waits in the journal until that scoring is over."""
    world = world.copied()
    sets = len(world.judging.sets)
    notes = JobNotes(world.store, world.run_id)
    job = notes.write(ScoringJob(transactions="some", batch_size=1, n_sets=sets))
    name = hashed_id(world.payments.keys[0])
    note = {"run": world.run_id, "epoch": 0, "ids": [name.decode()], "sets": [1], "bits": [1]}
    journal.ask(note).result()
    known = world.stored(journal).take_over().bits
    assert known[name].tolist() == [UNKNOWN, 1, UNKNOWN]
    assert notes.n_known() == (0, 0)
    assert list(journal.questions()) == [note]
    assert notes.read() == job
    notes.end()
    assert world.stored(journal).take_over().bits[name].tolist() == [-1, 1, -1]
    assert notes.n_known() == (1, 1)
    assert not list(journal.questions())
    journal.ask(note | {"epoch": 7})  # of another epoch
    world.stored(journal).take_over()
    assert not list(journal.questions())


# Banks that do not do what they should.


def test_a_silent_bank_holds_up_nobody_but_itself_and_not_for_long(world, journal):
    banks, payments = Banks(world), world.some(slice(0, 100))
    banks.silent = {"bank02"}
    parts = []

    async def work():
        async with asking(world, journal, banks, timeout_s=0.6) as engine:
            start = engine._clock.now()
            async for part in engine.decide(payments):
                parts.append((engine._clock.now() - start, part))
            states = {one.bank: one.state for one in engine.status()}
            again = await all_decided(engine, world.some(slice(100, 130)))
            banks.silent = set()
            while engine.status()[1].state != "answering":
                await asyncio.sleep(0.005)
            return states, again, await all_decided(engine, payments)

    states, (later, how_later), (table, how) = in_loop(work())
    assert states == {"bank01": "answering", "bank02": "not answering"}
    late = [at for at, part in parts if "bank not answering" in part.how]
    assert late
    assert all(at > 0.6 for at in late)
    decided = {number: part for _, part in parts for number in part.rows.tolist()}
    assert sorted(decided) == list(range(100))
    first = pl.concat([part.table for _, part in parts])
    rows = np.concatenate([part.rows for _, part in parts])
    assert same(first[np.argsort(rows)], world.trusted(payments, without=("bank02",)))
    assert same(later, world.trusted(world.some(slice(100, 130)), without=("bank02",)))
    assert "bank not answering" in how_later
    assert same(table, world.trusted(payments))
    assert "bank not answering" not in how


def test_a_bank_that_was_away_is_asked_again_with_another_mask(world, journal):
    banks, payments = Banks(world), world.some(slice(0, 60))
    banks.away = {"bank01"}

    async def work():
        async with asking(world, journal, banks, timeout_s=100.0) as engine:
            waiting = asyncio.ensure_future(all_decided(engine, payments))
            while engine.status()[0].counts.lost < 3:
                await asyncio.sleep(TICK_S)
            banks.away = set()
            return await waiting, engine.status()

    (table, how), status = in_loop(work())
    assert same(table, world.trusted(payments))
    assert "bank not answering" not in how
    assert status[0].counts.lost >= 3
    queries = [data for _, bank, data, _ in banks.sent if bank == "bank01"]
    assert len(queries) >= 4
    ticks = [decode(data).address.index for data in queries]
    assert ticks == sorted(set(ticks))
    ciphertexts = {decode(data).ciphertext for data in queries}
    assert len(ciphertexts) == len(queries)


def test_a_reply_that_is_late_counts_and_its_questions_were_asked_again_meanwhile(world, journal):
    banks, payments = Banks(world), world.some(slice(0, 60))
    banks.slow_s = {"bank01": 12 * TICK_S}

    async def work():
        async with asking(world, journal, banks, timeout_s=16 * TICK_S) as engine:
            return await all_decided(engine, payments), engine.status()

    (table, how), status = in_loop(work())
    assert same(table, world.trusted(payments))
    assert "bank not answering" not in how
    assert [one.counts.lost for one in status] == [0, 0]
    asked = asked_pairs(journal)
    assert len(asked) > len(set(asked))
    ciphertexts = [decode(data).ciphertext for _, _, data, _ in banks.sent]
    assert len(set(ciphertexts)) == len(ciphertexts)


def changed(reply: bytes, **values) -> bytes:
    return encode(dataclasses.replace(decode(reply), **values))


def more(residues: np.ndarray) -> np.ndarray:
    """A bit that nobody asked for."""
    shifted = residues.copy()
    shifted[7] = (shifted[7] + 2**15) % 65537
    return shifted


@pytest.mark.parametrize(
    "wrong",
    [
        lambda reply: changed(reply, residues=more(decode(reply).residues)),
        lambda reply: changed(reply, residues=np.full(64, 65537, np.uint32)),
        lambda reply: reply[:-1],
        lambda reply: b"nonsense",
    ],
    ids=["a bit not asked for", "no residues", "cut off", "nonsense"],
)
def test_a_bank_that_misbehaves_is_not_asked_any_more(world, journal, wrong, caplog):
    banks, payments = Banks(world), world.some(slice(0, 60))
    right = banks.does["bank02"]
    banks.does["bank02"] = lambda data: wrong(right(data))

    async def work():
        async with asking(world, journal, banks) as engine:
            first = await all_decided(engine, payments)
            n_sent = sum(bank == "bank02" for _, bank, _, _ in banks.sent)
            banks.does["bank02"] = right
            second = await all_decided(engine, payments)
            await asyncio.sleep(4 * TICK_S)
            still = sum(bank == "bank02" for _, bank, _, _ in banks.sent)
            return first, second, engine.status(), still - n_sent

    (table, how), (again, _), status, n_more = in_loop(work())
    assert same(table, world.trusted(payments, without=("bank02",)))
    assert same(again, table)
    assert "bank not answering" in how
    assert [one.state for one in status] == ["answering", "not asked any more"]
    assert status[1].why.startswith("misbehaves")
    assert n_more == 0
    assert caplog.text.count("is not asked any more until the service is started again") == 1


def test_a_record_of_two_kinds_is_a_lie(world, journal):
    """Every bit that was asked for is 1: a sum of bits, and impossible."""
    banks, payments = Banks(world), world.some(slice(0, 60))

    async def work():
        async with asking(world, journal, banks) as engine:
            for line in engine._asking._lines:
                lie_in(line)
            return await all_decided(engine, payments), engine.status()

    (table, how), status = in_loop(work())
    assert same(table, world.trusted(payments, without=BANKS))
    assert [one.state for one in status] == ["not asked any more"] * 2
    assert "two kinds" in status[0].why
    assert "banks asked" not in how


def lie_in(line: Line) -> None:
    """As if the bank could make every bit a 1."""
    learn = line._knowledge.learn
    line._knowledge.learn = lambda account, of_set, bits: learn(account, of_set, np.ones_like(bits))


def test_a_bank_that_refuses_says_why(world, journal, caplog):
    banks, payments = Banks(world), world.some(slice(0, 40))
    answers = world.answers(1, lambda: False)
    banks.does["bank02"] = answers.answer

    async def work():
        async with asking(world, journal, banks, timeout_s=0.5) as engine:
            found = await all_decided(engine, payments)
            return found, engine.status()

    (table, how), status = in_loop(work())
    assert same(table, world.trusted(payments, without=("bank02",)))
    assert "bank not answering" in how
    assert (status[1].state, status[1].why) == ("not answering", "budget spent")
    assert caplog.text.count("bank02 refuses live queries: budget spent") == 1


def test_a_bank_that_changes_its_reasons_does_not_fill_the_log(world, journal, caplog):
    """At each tick another one, or an answer."""
    banks, payments = Banks(world), world.some(slice(0, 40))
    right, refusing = banks.does["bank02"], world.answers(1, lambda: False).answer
    said = cycle(
        [
            lambda data: changed(refusing(data), reason="other keys"),
            refusing,
            right,
        ]
    )

    def answer(data: bytes) -> bytes:
        return next(said)(data)

    banks.does["bank02"] = answer

    async def work():
        async with asking(world, journal, banks) as engine:
            await all_decided(engine, payments)
            while sum(bank == "bank02" for _, bank, _, _ in banks.sent) < 12:
                await asyncio.sleep(TICK_S)

    in_loop(work())
    assert caplog.text.count("bank02 refuses live queries") == 1
    assert caplog.text.count("live queries are refused") == 1  # by the bank itself


def test_a_worker_that_is_killed_comes_back_and_no_payment_is_lost(world, journal):
    banks, payments = Banks(world), [world.some(slice(i, i + 20)) for i in range(0, 200, 20)]

    async def work():
        async with asking(world, journal, banks, timeout_s=100.0) as engine:
            waiting = [asyncio.ensure_future(all_decided(engine, payments[0]))]
            for number, one in enumerate(payments[1:]):
                if number == 3:
                    for pid in engine.worker_pids:
                        os.kill(pid, signal.SIGKILL)
                waiting.append(asyncio.ensure_future(all_decided(engine, one)))
                await asyncio.sleep(2 * TICK_S)
            return await asyncio.gather(*waiting)

    for (table, how), one in zip(in_loop(work()), payments, strict=True):
        assert same(table, world.trusted(one))
        assert "bank not answering" not in how


# What shows.


async def held_by(engine, payments) -> None:
    """When these payments are judged and wait for a tick; no time passes."""
    while not any(held._judged.payments is payments for held in engine._asking._held):
        await asyncio.sleep(0.005)


async def ticks(world, journal, n_ticks: int, payments=None):
    """What is sent when time passes tick by tick, with and without payments."""
    banks = Banks(world)
    async with asking(world, journal, banks, passes=False) as engine:
        waiting = []
        for tick in range(n_ticks):
            if payments is not None and tick < 4:
                waiting.append(asyncio.ensure_future(all_decided(engine, payments[tick])))
                await held_by(engine, payments[tick])
            await one_tick(engine, banks)
        found = await asyncio.gather(*waiting)
        return [
            (time, bank, len(data), len(reply)) for time, bank, data, reply in banks.sent
        ], found


def test_sizes_and_times_do_not_depend_on_what_is_asked(world, journal):
    payments = [world.some(slice(i, i + 40)) for i in range(0, 160, 40)]
    quiet, _ = in_loop(ticks(world, journal, 9))
    busy, found = in_loop(ticks(world, journal, 9, payments))
    assert quiet == busy
    assert [time for time, *_ in busy] == [
        pytest.approx(n * TICK_S) for n in range(10) for _ in BANKS
    ]
    for (table, how), one in zip(found, payments, strict=True):
        assert same(table, world.trusted(one))
        assert "banks asked" in how


def test_payments_are_released_one_tick_after_they_were_taken_up(world, journal):
    payments = world.some(slice(0, 40))

    async def work():
        banks, waiting = Banks(world), []
        async with asking(world, journal, banks, passes=False) as engine:
            await banks.clock.advance(0.6 * TICK_S)
            deciding = asyncio.ensure_future(all_decided(engine, payments))
            await held_by(engine, payments)
            for _ in range(2):
                for step in (0.4, 0.4, 0.1, 0.1):
                    await banks.clock.advance(step * TICK_S)
                    await settled(engine, banks)  # replies are there at once
                    n_left = sum(int(held.left.sum()) for held in engine._asking._held)
                    waiting.append((round(banks.clock.now() / TICK_S, 6), n_left))
            await deciding
            return waiting, [one.counts.with_questions for one in engine.status()]

    waiting, with_questions = in_loop(work())
    n_asking = waiting[0][1]
    assert n_asking > 20
    # Taken up at 1.5, sent at tick 2, released at 2.5.
    times = (1.0, 1.4, 1.5, 1.6, 2.0, 2.4, 2.5, 2.6)
    assert waiting == [(time, n_asking if time < 2.5 else 0) for time in times]
    assert with_questions == [1, 1]


def test_a_query_that_is_not_ready_is_replaced_by_a_cover_and_sent_a_tick_later(world, journal):
    payments = world.some(slice(0, 40))

    async def work():
        banks, go = Banks(world), asyncio.Event()
        async with asking(world, journal, banks, passes=False) as engine:
            query = engine._asking.crew.query

            async def later(made):
                await go.wait()
                return await made

            def slow(bank, placed):
                made = query(bank, placed)
                return asyncio.ensure_future(later(made)) if len(placed) else made

            engine._asking.crew.query = slow
            deciding = asyncio.ensure_future(all_decided(engine, payments))
            await held_by(engine, payments)
            for tick in range(16):
                await banks.clock.advance(TICK_S / 2)
                while any(line._covering for line in engine._asking._lines):
                    await asyncio.sleep(0.005)
                if tick == 8:
                    go.set()
                    await settled(engine, banks)
            return banks.sent, await deciding, [one.counts for one in engine.status()]

    sent, (table, how), counts = in_loop(work())
    times = [time for time, bank, _, _ in sent if bank == "bank01"]
    assert times == [pytest.approx(n * TICK_S) for n in range(9)]
    assert [one.with_questions for one in counts] == [1, 1]
    assert all(one.missed == 0 for one in counts)
    assert same(table, world.trusted(payments))
    assert "bank not answering" not in how


def test_while_no_worker_is_there_the_reserve_is_sent_and_then_ticks_are_missed_and_counted(
    world, journal, caplog
):
    async def work():
        banks = Banks(world)
        async with asking(
            world, journal, banks, passes=False, covered_s=4 * TICK_S, timeout_s=100.0
        ) as engine:
            await one_tick(engine, banks)
            n_before, query = len(banks.sent), engine._asking.crew.query

            def gone(bank, placed):
                raise WorkerError("gone")

            engine._asking.crew.query = gone
            for _ in range(7):
                await one_tick(engine, banks)
            sent = Counter(bank for _, bank, _, _ in banks.sent[n_before:])
            missed = [one.counts.missed for one in engine.status()]
            engine._asking.crew.query = query
            for _ in range(3):
                await one_tick(engine, banks)
            return sent, missed, [one.counts for one in engine.status()]

    sent, missed, counts = in_loop(work())
    assert sent == dict.fromkeys(BANKS, 4)
    assert missed == [3, 3]
    assert [one.missed for one in counts] == [4, 4]  # the first is made when it is due
    assert [one.replies for one in counts] == [one.queries for one in counts] == [8, 8]
    assert caplog.text.count("bank01 was sent nothing at 1 ticks so far") == 1


def test_ticks_that_were_missed_are_left_out_and_never_made_up_for(world, journal):
    async def work():
        banks = Banks(world)
        async with asking(world, journal, banks, passes=False) as engine:
            for step in (1, 3.5, 0.5, 1):
                await banks.clock.advance(step * TICK_S)
                await settled(engine, banks)
            return (
                [time for time, bank, _, _ in banks.sent if bank == "bank01"],
                [decode(data).address.index for _, bank, data, _ in banks.sent if bank == "bank01"],
                [one.counts.missed for one in engine.status()],
            )

    times, numbers, missed = in_loop(work())
    assert times == [pytest.approx(n * TICK_S) for n in (0, 1, 4.5, 5, 6)]
    assert numbers == [0, 1, 4, 5, 6]
    assert missed == [2, 2]


def test_nothing_is_sent_before_it_is_on_disk(world, journal):
    banks = Banks(world)

    async def work():
        async with asking(world, journal, banks, timeout_s=0.5) as engine:

            async def failing(_):
                raise OSError("the disk is full")

            engine._asking._note = failing
            return await all_decided(engine, world.some(slice(0, 40))), engine.status()

    (table, how), status = in_loop(work())
    assert same(table, world.trusted(world.some(slice(0, 40)), without=BANKS))
    assert "banks asked" not in how
    assert [one.counts.questions for one in status] == [0, 0]
    assert all(one.counts.queries > 3 for one in status)


def test_a_clock_that_stops_takes_the_service_along(world, journal):
    """Or no payment that asks anything would be decided any more."""
    banks = Banks(world)

    async def work():
        async with asking(world, journal, banks, passes=False) as engine:

            def breaks(_):
                raise ValueError("on purpose")

            ended = asyncio.Event()
            engine._background.end_service = ended.set
            engine._asking.release = breaks
            await one_tick(engine, banks)
            await ended.wait()
            return engine._background.ended

    assert in_loop(work()) == "the clock of live queries"


# Another model.


def test_new_accounts_wait_for_the_next_match_and_are_asked_about_after_it(
    world, journal, monkeypatch
):
    monkeypatch.setattr(stored, "LOOK_EVERY_S", 0.05)
    world = world.copied()
    payments = world.payments
    before = world.trusted(payments)
    in_store = world.stored(journal)
    in_force = in_store.in_force()

    async def work():
        banks = Banks(world)
        async with asking(world, journal, banks) as engine:
            async with Following(engine, in_store, in_force):
                first, how = await all_decided(engine, payments)
            noted = in_store.noted()
            await asyncio.to_thread(world.match_new_accounts)
            n_accounts = len(engine.knowledge.bits)
            async with Following(engine, in_store, in_force):
                while len(engine.newcomers) or len(engine.knowledge.bits) == n_accounts:
                    await asyncio.sleep(0.02)
                return (first, how), await all_decided(engine, payments), noted

    unmatched = [
        key for key, one in zip(payments.keys, world.matched(payments), strict=True) if not one
    ]
    (first, how), (second, how_second), noted = in_loop(work())
    assert sorted(noted) == sorted(key for key in unmatched if key[0] in world.judging.directory)
    assert in_store.noted() == []
    assert same(first, before)
    assert "account not yet matched" in how
    after = world.trusted(payments)
    assert not same(before, after)
    assert same(second, after)
    assert "account not yet matched" not in how_second


@pytest.mark.parametrize("error", [OSError("no space left"), TimeoutError(), ValueError("secret")])
def test_matches_are_followed_again_after_an_error_that_nobody_expected(
    world, journal, monkeypatch, caplog, error
):
    monkeypatch.setattr(stored, "LOOK_EVERY_S", 0.01)
    in_store = world.stored(journal)
    in_force = in_store.in_force()
    read, failed, n_read = in_store.read, [], 0

    def fails_twice():
        nonlocal n_read
        n_read += 1
        if n_read <= 2:
            raise error
        return read()

    monkeypatch.setattr(in_store, "read", fails_twice)

    async def work():
        async with asking(world, journal, Banks(world)) as engine:
            before = engine.knowledge
            async with Following(engine, in_store, (), failed.append) as following:
                while following._in_force != in_force:
                    await asyncio.sleep(0.01)
            assert engine.knowledge is not before

    in_loop(work())
    assert [type(one) for one in failed] == [type(error)] * 2
    (line,) = (one for one in caplog.records if "is in force is not known" in one.message)
    assert "secret" not in line.message
    assert line.exc_info is not None


def test_a_model_that_cannot_be_read_leaves_no_file_open(world, journal, monkeypatch):
    opened, make = [], tempfile.TemporaryFile

    def noted(**settings):
        opened.append(make(**settings))
        return opened[-1]

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(asked_model.tempfile, "TemporaryFile", noted)
    monkeypatch.setattr(asked_model, "read_shares", full)
    with pytest.raises(OSError, match="no space left"):
        world.model(journal)
    assert [one.closed for one in opened] == [True]


def test_a_model_that_cannot_be_taken_up_leaves_no_workers(world, journal, monkeypatch):
    """It is tried again every two seconds."""

    def breaks(*_):
        raise ValueError("on purpose")

    async def work():
        async with asking(world, journal, Banks(world)) as engine:
            before, new = engine._asking, world.model(journal)
            monkeypatch.setattr(Knowledge, "absorb", breaks)
            with pytest.raises(ValueError, match="on purpose"):
                await engine.use(new)
            assert engine._asking is before
            assert new.shares.closed

    in_loop(work())


def test_payments_that_wait_while_the_model_is_replaced_are_judged_with_the_new_one(world, journal):
    banks, payments = Banks(world), world.some(slice(0, 60))
    banks.silent = set(BANKS)
    other = live_federation()  # a model to which few answers matter

    async def work():
        async with asking(world, journal, banks, timeout_s=100.0) as engine:
            deciding = asyncio.ensure_future(all_decided(engine, payments))
            await held_by(engine, payments)
            new = await asyncio.to_thread(world.model, journal, other.judging)
            await engine.use(new)
            banks.silent = set()
            return await deciding

    table, _ = in_loop(work())
    before, after = world.trusted(payments, without=BANKS), other.trusted(payments)
    # What asks nothing is decided before.  Of these payments one or none differs between the two
    # models, by the last digits of the machine; with the answers of the banks, nearly all would.
    assert not same(world.trusted(payments), after)
    for row in range(len(payments)):
        assert same(table[[row]], after[[row]]) or same(table[[row]], before[[row]])
    assert sum(same(table[[row]], after[[row]]) for row in range(len(payments))) > 30

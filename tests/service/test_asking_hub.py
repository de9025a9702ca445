"""Live decisions through a hub with real TLS: right, and still right after kills.

On the real clock; nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager

import pytest
from tests.kit.hub_world import HubWorld
from tests.kit.live_banks import BANKS, JOURNAL_KEY, all_decided, live_federation

from pv4fad.deployment.hub.live import LiveQuestions, answering
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.service.asking.engine import LiveEngine, Timing
from pv4fad.service.journal import Journal

PATIENCE_S = 120
COLUMNS = ["MessageId", "Alert", "Level", "Reasons", "Score"]


@pytest.fixture(scope="module")
def world():
    return live_federation().telling()


@pytest.fixture
def hub_world(tmp_path):
    return HubWorld(tmp_path, list(BANKS))


@asynccontextmanager
async def engine_of(world, hub_world, journal):
    async def note(content):
        await asyncio.wrap_future(journal.ask(content))

    own = hub_world.correspondence(PAYMENT_NETWORK)
    async with LiveQuestions(hub_world.folder(PAYMENT_NETWORK), own) as questions:
        model, timing = world.model(journal), Timing(tick_s=0.1, timeout_s=60.0)
        async with LiveEngine(model, timing, ask=questions.ask, note=note) as engine:
            yield engine


def bank(world, hub_world, number):
    name = BANKS[number]
    answers = world.answers(number)
    return answering(hub_world.folder(name), hub_world.correspondence(name), answers.answer)


def in_loop(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def check(world, payments, found):
    table, how = found
    assert table.select(COLUMNS).equals(world.trusted(payments).select(COLUMNS))
    assert "bank not answering" not in how
    assert "banks asked" in how


def test_decisions_through_a_hub_equal_those_of_a_trusted_third_party(world, hub_world, tmp_path):
    payments = [world.some(slice(start, start + 50)) for start in range(0, 200, 50)]

    async def work(journal):
        async with engine_of(world, hub_world, journal) as engine:
            return await asyncio.gather(*(all_decided(engine, one) for one in payments))

    with Journal.open(tmp_path, JOURNAL_KEY) as journal, ExitStack() as running:
        running.enter_context(hub_world.hub())
        for number in range(len(BANKS)):
            running.enter_context(bank(world, hub_world, number))
        found = in_loop(work(journal))
    for one, decided in zip(payments, found, strict=True):
        check(world, one, decided)


def test_a_bank_and_a_hub_that_were_killed_are_asked_again_when_they_are_back(
    world, hub_world, tmp_path
):
    payments = [world.some(slice(start, start + 40)) for start in range(0, 160, 40)]

    async def work(journal, running):
        async with engine_of(world, hub_world, journal) as engine:
            found = [await all_decided(engine, payments[0])]
            running["bank02"].close()
            waiting = asyncio.ensure_future(all_decided(engine, payments[1]))
            await lost(engine, 1)
            running["bank02"].enter_context(bank(world, hub_world, 1))
            found.append(await waiting)
            await asyncio.to_thread(running["hub"].close)
            waiting = asyncio.ensure_future(all_decided(engine, payments[2]))
            await lost(engine, 0)
            running["hub"].enter_context(hub_world.hub())
            found.append(await waiting)
            return [*found, await all_decided(engine, payments[3])]

    with (
        Journal.open(tmp_path, JOURNAL_KEY) as journal,
        ExitStack() as hub,
        ExitStack() as first,
        ExitStack() as second,
    ):
        hub.enter_context(hub_world.hub())
        first.enter_context(bank(world, hub_world, 0))
        second.enter_context(bank(world, hub_world, 1))
        found = in_loop(work(journal, {"hub": hub, "bank02": second}))
    for one, decided in zip(payments, found, strict=True):
        check(world, one, decided)


async def lost(engine, number):
    """When a query to a bank has got lost."""
    before = engine.status()[number].counts.lost
    while engine.status()[number].counts.lost < before + 2:
        await asyncio.sleep(0.02)

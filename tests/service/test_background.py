"""What the service cannot do without takes it along when it ends; who starts it again sees why."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing

import pytest
from tests.kit.known_writer import KEY
from tests.kit.live_service import free_port, parts_of

from pv4fad.errors import StoreError, WorkerError
from pv4fad.listening import Listen
from pv4fad.service.background import Background
from pv4fad.service.journal import Journal
from pv4fad.service.network import network_app
from pv4fad.service.notices import Outbox
from pv4fad.service.pipeline import Pipeline
from pv4fad.service.server import Server

PATIENCE_S = 60


def served(folder, **others):
    """A service, until it ends by itself."""
    with Journal.open(folder, KEY) as journal:
        parts = parts_of(folder, journal, **others)
        server = Server(network_app(parts), Listen(port=free_port()))
        with closing(parts.rows), ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(asyncio.run, server.serve()).result(PATIENCE_S)
            finally:
                server.should_exit = True
            return parts


async def breaks(*_):
    raise ValueError("SECRET")


async def returns(*_):
    return


async def is_cancelled(*_):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ((Pipeline, "_write_all"), "the pipeline of payments"),
        ((Pipeline, "_check_all"), "the pipeline of payments"),
        ((Outbox, "run"), "the delivery of notices"),
    ],
)
def test_the_service_ends_with_a_task_that_it_cannot_do_without(
    tmp_path, monkeypatch, caplog, part, what
):
    monkeypatch.setattr(*part, breaks)
    failed = []
    background = Background(failed.append)
    with pytest.raises(WorkerError, match=f"{what} has ended: start the service again"):
        served(tmp_path, carrier=object(), background=background)
    assert [type(one) for one in failed] == [ValueError]
    (line,) = (one for one in caplog.records if "the service ends, too" in one.message)
    assert line.message.startswith(what)
    assert "SECRET" not in line.message  # what is logged of `exc_info` is tested with the logs
    assert line.exc_info[0] is ValueError


@pytest.mark.parametrize("error", [ValueError("SECRET"), StoreError("the store is damaged")])
def test_a_service_that_cannot_start_does_not_end_as_if_all_were_well(tmp_path, caplog, error):
    @asynccontextmanager
    async def engine():
        raise error
        yield

    with pytest.raises(WorkerError, match="could not start"):
        served(tmp_path, running=[engine()])
    written = "\n".join(one.getMessage() for one in caplog.records)
    assert "SECRET" not in written
    assert ("the store is damaged" in written) == isinstance(error, StoreError)


@pytest.mark.parametrize("work", [breaks, returns, is_cancelled])
def test_however_a_task_ends_too_early_it_is_noticed(work):
    async def watched():
        background, told = Background(), asyncio.Event()
        background.end_service = told.set
        async with background.running("it", work()):
            await asyncio.wait_for(told.wait(), PATIENCE_S)
        return background.ended

    assert asyncio.run(watched()) == "it"


def test_a_task_that_runs_to_the_end_of_its_block_has_not_ended_too_early(caplog):
    async def watched():
        background = Background()
        async with background.running("it", asyncio.sleep(PATIENCE_S)):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return background.ended

    assert asyncio.run(watched()) == ""
    assert not caplog.records

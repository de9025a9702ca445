"""`pv4fad federation`: run the jobs of a deployed federation, at its aggregator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.options import AsJson
from pv4fad.cli.party import PROGRAMS
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.status import (
    Hops,
    Status,
    has_stopped_responding,
    read_status,
    wait_for_response,
)
from pv4fad.errors import ParameterError, StoreError
from pv4fad.report.words import size_text

app = typer.Typer(help="A deployed federation, at its aggregator.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The aggregator's folder.")]
_JOBS: tuple[Job, ...] = ("check", "train", "score", "refresh")
_LOOK_EVERY_S = 0.5
_RELAY_STARTS_WITHIN_S = 120.0
_RUNNING = "is running: see pv4fad federation status"
_STOPPED = (
    "the relay stopped responding: make sure that pv4fad party run is running at the aggregator,"
    " then continue with pv4fad federation resume"
)


@app.command()
def start(
    folder: Folder,
    job: Annotated[
        str,
        typer.Argument(
            help="check: reach all parties; train, score: with the settings of the payment network;"
            " refresh: match all accounts again, after bank records changed or for new keys."
        ),
    ],
) -> None:
    """Run a job (check, train, score or refresh) and wait for it."""
    for known in _JOBS:
        if known == job:
            return _carry_through(folder, known)
    raise ParameterError(f"{job}: give one of {', '.join(_JOBS)}")


@app.command()
def resume(folder: Folder) -> None:
    """Continue the interrupted job and wait for it."""
    _carry_through(folder, "resume")


@app.command()
def status(
    folder: Folder,
    as_json: AsJson = False,
) -> None:
    """Show the state of the latest job, and who has sent how much to whom."""
    found = read_status(_aggregator(folder).path)
    if found is None:
        raise StoreError(f"{folder}: no job was started yet")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found)
    if found.state == "running" and _has_stopped(folder, found):
        raise StoreError(_STOPPED)


def _aggregator(folder: Path) -> PartyFolder:
    own = PartyFolder(folder)
    if own.settings().role != "aggregator":
        raise ParameterError(f"{folder} is not the aggregator's folder: jobs are started there")
    return own


def _carry_through(folder: Path, job: Job) -> None:
    own = _aggregator(folder)
    before = read_status(own.path)
    if before is None and job == "resume":
        raise StoreError(f"{folder}: no job was started yet")
    if before is not None and before.state == "running":
        alive = not _has_stopped(own.path, before)
        if alive or job != "resume":
            what = _RUNNING if alive else _STOPPED
            raise StoreError(f"job {before.number} ({before.job}): {what}")
    number = 1 if before is None else before.number + 1
    PROGRAMS.start_job(own, job, number)
    err.print(f"job {number} ({job}) has been submitted", markup=False)
    done = _follow(own.path, number)
    _print(done)
    if done.state == "failed":
        fail(escape(done.error), 1)


def _has_stopped(folder: Path, running: Status) -> bool:
    """Whether the relay of a job that should be running is gone."""
    return not wait_for_response(folder) and read_status(folder) == running


def _follow(folder: Path, number: int) -> Status:
    """Wait for the end of a job."""
    printed, since = "", time.monotonic()
    while True:
        found = read_status(folder)
        if found is not None and found.number == number:
            since = time.monotonic() if found.progress != printed else since
            if found.progress and found.progress != printed:
                printed = found.progress
                err.print(printed, markup=False)
            if found.state != "running":
                return found
            if has_stopped_responding(folder) and read_status(folder) == found:
                raise StoreError(_STOPPED)
        elif time.monotonic() - since > _RELAY_STARTS_WITHIN_S:
            raise StoreError(
                "the hub has not started the relay; see its log in the aggregator's folder"
            )
        time.sleep(_LOOK_EVERY_S)


def _print(found: Status) -> None:
    sent = Table("from", "to", "messages", "bytes", title="Messages (sealed)")
    for way in found.sent:
        sent.add_row(way.sender, way.receiver, str(way.messages), size_text(way.bytes))
    out.print(sent)
    stations = Table("station", "state", "exchanges", "s each", "to it", "from it", "failures", "")
    for name, party in found.parties.items():
        stations.add_row(name, *_cells(party))
    out.print(stations)
    text = f"job {found.number} ({found.job}): {found.state} after {found.seconds:.0f} s"
    out.print(escape(text + (f": {found.error}" if found.error else "")), soft_wrap=True)


def _cells(hops: Hops) -> list[str]:
    answered = max(1, hops.exchanges - hops.failures)
    problem = hops.problem or ("was restarted" if hops.restarts else "")
    return [
        hops.state,
        str(hops.exchanges),
        f"{hops.seconds / answered:.1f}",
        size_text(hops.bytes_to),
        size_text(hops.bytes_from),
        str(hops.failures),
        escape(problem),
    ]

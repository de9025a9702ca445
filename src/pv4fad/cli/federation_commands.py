"""`pv4fad federation`: train, score and match anew with the parties of a deployed federation.

For the aggregator, whose SuperLink takes orders from its own machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.errors import ParameterError, StoreError
from pv4fad.flower.exchange import Job
from pv4fad.flower.guarded import APP_FOLDER
from pv4fad.flower.party_folder import PartyFolder
from pv4fad.flower.processes import Control
from pv4fad.flower.status import Status, is_relay_gone, read_status, relay_gives_sign_of_life
from pv4fad.report.words import size_text

app = typer.Typer(help="A deployed federation, at its aggregator.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The aggregator's folder.")]
_JOBS: tuple[Job, ...] = ("check", "train", "score", "refresh")
_LOOK_EVERY_S = 0.5
_RELAY_STARTS_WITHIN_S = 120.0
_UNDER_WAY = "is under way: see pv4fad federation status"
_GONE = (
    "the relay is gone without a word, perhaps with the SuperLink: when pv4fad party run runs"
    " again at the aggregator, carry on with pv4fad federation resume"
)


@app.command()
def start(
    folder: Folder,
    job: Annotated[
        str,
        typer.Argument(
            help="check: reach everybody; train or score: as the payment network has set; refresh:"
            " match all accounts anew, because bank records have changed or for new keys."
        ),
    ],
) -> None:
    """Check the lines, train, score or match anew; waits until it is done."""
    for known in _JOBS:
        if known == job:
            return _carry_through(folder, known)
    raise ParameterError(f"{job}: give one of {', '.join(_JOBS)}")


@app.command()
def resume(folder: Folder) -> None:
    """Carry on what was interrupted."""
    _carry_through(folder, "resume")


@app.command()
def status(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show how the latest job is doing, and who has sent how much to whom."""
    found = read_status(_aggregator(folder).path)
    if found is None:
        raise StoreError(f"{folder}: nothing was started yet")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found)
    if found.state == "running" and _is_gone(folder, found):
        raise StoreError(_GONE)


def _aggregator(folder: Path) -> PartyFolder:
    own = PartyFolder(folder)
    if own.settings().role != "aggregator":
        raise ParameterError(f"{folder}: a federation is started in the aggregator's folder")
    return own


def _carry_through(folder: Path, job: Job) -> None:
    own = _aggregator(folder)
    before = read_status(own.path)
    if before is None and job == "resume":
        raise StoreError(f"{folder}: nothing was started yet")
    if before is not None and before.state == "running":
        alive = not _is_gone(own.path, before)
        if alive or job != "resume":
            what = _UNDER_WAY if alive else _GONE
            raise StoreError(f"job {before.number} ({before.job}): {what}")
    number = 1 if before is None else before.number + 1
    Control(own, own.settings()).start(APP_FOLDER, job, number)
    err.print(f"job {number} ({job}) has been handed to the SuperLink", markup=False)
    done = _follow(own.path, number)
    _print(done)
    if done.state == "failed":
        fail(escape(done.error), 1)


def _is_gone(folder: Path, running: Status) -> bool:
    """Whether a job that is said to be running has lost its relay."""
    return not relay_gives_sign_of_life(folder) and read_status(folder) == running


def _follow(folder: Path, number: int) -> Status:
    """Wait for the end of a job."""
    told, since = "", time.monotonic()
    while True:
        found = read_status(folder)
        if found is not None and found.number == number:
            since = time.monotonic() if found.progress != told else since
            if found.progress and found.progress != told:
                told = found.progress
                err.print(told, markup=False)
            if found.state != "running":
                return found
            if is_relay_gone(folder) and read_status(folder) == found:
                raise StoreError(_GONE)
        elif time.monotonic() - since > _RELAY_STARTS_WITHIN_S:
            raise StoreError("the SuperLink has not started the relay; its log is in flower/")
        time.sleep(_LOOK_EVERY_S)


def _print(found: Status) -> None:
    sent = Table("from", "to", "messages", "bytes", title="Who talked to whom (sealed)")
    for way in found.sent:
        sent.add_row(way.sender, way.receiver, str(way.messages), size_text(way.bytes))
    out.print(sent)
    hops = Table("station", "state", "exchanges", "s each", "to it", "from it", "failures", "")
    for name, one in found.parties.items():
        hops.add_row(name, *_cells(one.model_dump()))
    out.print(hops)
    text = f"job {found.number} ({found.job}): {found.state} after {found.seconds:.0f} s"
    out.print(escape(text + (f": {found.error}" if found.error else "")), soft_wrap=True)


def _cells(one: dict[str, Any]) -> list[str]:
    answered = max(1, one["exchanges"] - one["failures"])
    problem = one["problem"] or ("was restarted" if one["restarts"] else "")
    return [
        one["state"],
        str(one["exchanges"]),
        f"{one['seconds'] / answered:.1f}",
        size_text(one["bytes_to"]),
        size_text(one["bytes_from"]),
        str(one["failures"]),
        escape(problem),
    ]

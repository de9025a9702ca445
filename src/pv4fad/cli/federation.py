"""`pv4fad federation`: run the jobs of a deployed federation.

At its aggregator; over a hub also at the payment network, if the aggregator allows that.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.options import AsJson
from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.carriers import carrier_of
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.status import Hops, Status
from pv4fad.errors import ParameterError, StoreError
from pv4fad.report.texts import size_text

app = typer.Typer(help="The jobs of a deployed federation.", no_args_is_help=True)

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="The aggregator's folder, or the payment network's."),
]
_JOBS: tuple[Job, ...] = ("check", "train", "score", "match", "refresh")
_LOOK_EVERY_S = 0.2
_PATIENCE_S = 30.0
_RELAY_STARTS_WITHIN_S = 120.0


@app.command()
def start(
    folder: Folder,
    job: Annotated[
        str,
        typer.Argument(
            help="check: reach all parties; train, score: with the settings of the payment network;"
            " match: the accounts that live payments have met; refresh: match all accounts again,"
            " after bank records changed or for new keys."
        ),
    ],
) -> None:
    """Run a job (check, train, score, match or refresh) and wait for it."""
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
    own, carrier = _opened(folder)
    found = carrier.status(own)
    if found is None:
        raise StoreError(f"{folder}: no job was started yet")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found)
    if found.state == "running":
        carrier.require_running(own, found)


def _opened(folder: Path) -> tuple[PartyFolder, Carrier]:
    own = PartyFolder(folder)
    settings = own.settings()
    if settings.role == "bank":
        raise ParameterError(f"{folder} is the folder of a bank: jobs are started elsewhere")
    return own, carrier_of(settings.carrier)


def _carry_through(folder: Path, job: Job) -> None:
    own, carrier = _opened(folder)
    number = carrier.start_job(own, job)
    err.print(f"job {number} ({job}) has been submitted", markup=False)
    done = _follow(own, carrier, number)
    _print(done)
    if done.state == "failed":
        fail(escape(done.error), 1)


def _follow(own: PartyFolder, carrier: Carrier, number: int) -> Status:
    """Wait for the end of a job; a hub that is killed has some time to come back."""
    printed, begun = "", time.monotonic()
    seen = begun
    while True:
        try:
            found = carrier.status(own)
            if found is not None and found.number == number:
                if found.progress and found.progress != printed:
                    printed = found.progress
                    err.print(printed, markup=False)
                if found.state != "running":
                    return found
                carrier.require_running(own, found)
            elif time.monotonic() - begun > _RELAY_STARTS_WITHIN_S:
                raise StoreError(
                    "the hub has not started the relay; see its log in the aggregator's folder"
                )
            seen = time.monotonic()
        except StoreError:
            if time.monotonic() - seen > _PATIENCE_S:
                raise
        time.sleep(_LOOK_EVERY_S)


def _print(found: Status) -> None:
    sent = Table("from", "to", "messages", "bytes", title="Messages (sealed)")
    for way in found.sent:
        sent.add_row(way.sender, way.receiver, str(way.messages), size_text(way.bytes))
    out.print(sent)
    stations = Table("station", "state", "busy s", "to it", "from it", "failures", "problem")
    for name, party in found.parties.items():
        stations.add_row(name, *_cells(party))
    out.print(stations)
    text = f"job {found.number} ({found.job}): {found.state} after {found.seconds:.0f} s"
    out.print(escape(text + (f": {found.error}" if found.error else "")), soft_wrap=True)


def _cells(hops: Hops) -> list[str]:
    problem = hops.problem or ("was restarted" if hops.restarts else "")
    return [
        hops.state,
        f"{hops.busy_s:.1f}",
        size_text(hops.bytes_to),
        size_text(hops.bytes_from),
        str(hops.failures),
        escape(problem),
    ]

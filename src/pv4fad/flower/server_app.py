"""The ServerApp: the aggregator's relay.

It runs on the aggregator's machine and finds the aggregator's folder and station through the
environment in which `pv4fad party run` started the SuperLink.  Nodes are known by their registered
keys, never by what they say.
"""

from __future__ import annotations

import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pv4fad.errors import DataError, Pv4fadError
from pv4fad.flower.exchange import JOBS
from pv4fad.flower.flower_carrier import FlowerCarrier
from pv4fad.flower.party_folder import PartyFolder
from pv4fad.flower.processes import FOLDER_VARIABLE, STATION_VARIABLE
from pv4fad.flower.relay import Relay
from pv4fad.flower.status import Journal

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one job through; how it went is in status.json."""
    folder = PartyFolder(Path(os.environ[FOLDER_VARIABLE]))
    job, number = str(context.run_config["job"]), int(context.run_config["number"])
    if job not in JOBS:
        raise DataError(f"job {job!r}: give one of {', '.join(JOBS)}")
    cards = folder.complete_cards()
    journal = Journal(folder.path, number, job, list(cards))
    try:
        carrier = FlowerCarrier(grid, cards, Path(os.environ[STATION_VARIABLE]))
        Relay(carrier, list(cards), job, journal).run()
    except Pv4fadError as error:
        journal.finish(str(error))
        raise
    except BaseException as error:
        journal.finish(f"the relay stopped: {type(error).__name__}")
        raise
    journal.finish()

"""`pv4fad serve bank`: a bank's station, its live answers and its inbox, in one process.

The bank's store has one owner, the station; the page shows what the station has kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pv4fad.deployment.bank_answers import BankAnswers
from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.running import figures_shown, opened_station
from pv4fad.errors import ParameterError
from pv4fad.listening import Listen
from pv4fad.service.access import Tokens
from pv4fad.service.inbox import inbox_app
from pv4fad.service.server import Server, run_server
from pv4fad.service.starting import require_role, require_token
from pv4fad.store.sealing import RootKey


def serve_bank(
    folder: PartyFolder,
    root_key: RootKey,
    carrier: Carrier,
    listen: Listen,
    ready: Callable[[], None],
) -> None:
    """A bank's station, its live answers and its inbox, until SIGINT or SIGTERM."""
    require_role(folder, "bank")
    require_token(folder, "desk")
    ended, failed = threading.Event(), list[BaseException]()
    may_read = Tokens(folder.path).may_read_metrics
    with (
        opened_station(folder, root_key, carrier) as station,
        figures_shown(folder, station, may_read),
    ):
        if not isinstance(station.live, BankAnswers):
            raise ParameterError(f"{folder.path}: the station of a bank keeps notices")
        app = inbox_app(
            folder.path,
            station.name,
            station.live.notices,
            problem=lambda: station.figures.problem(),  # noqa: PLW0108, the carrier sets it later
            tls=listen.tls,
        )
        server = Server(app, listen)

        def carry() -> None:
            try:
                carrier.serve(folder, station, ended, ready)
            except BaseException as error:
                failed.append(error)
            server.should_exit = True

        thread = threading.Thread(target=carry, name="carrier")
        thread.start()
        try:
            run_server(server)
        finally:
            ended.set()
            thread.join()
    if failed:
        raise failed[0]

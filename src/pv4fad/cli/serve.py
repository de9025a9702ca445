"""`pv4fad serve`: the live service of a payment network, the inbox of a bank."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from pv4fad.cli.long_running import logging_as
from pv4fad.cli.options import LogFormat, StoreKey, party_key
from pv4fad.deployment.carriers import carrier_of
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.errors import ParameterError
from pv4fad.listening import Listen

app = typer.Typer(help="A service for programs and people.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The party's own folder.")]
Host = Annotated[str, typer.Option(help="Where to listen; other than loopback with TLS only.")]
Port = Annotated[int, typer.Option(min=1, max=65535)]
Certificate = Annotated[Path | None, typer.Option(help="The service's certificate (PEM).")]
CertificateKey = Annotated[Path | None, typer.Option(help="Its private key (PEM).")]


@app.command("payment-network")
def payment_network(
    folder: Folder,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="Authority whose client certificates may send payments (PEM)."),
    ] = None,
    key: StoreKey = None,
    log_format: LogFormat = "text",
) -> None:
    """Judge payments as they come, and show the alerts, until interrupted."""
    require_service()
    from pv4fad.service.network import network_app  # noqa: PLC0415
    from pv4fad.service.server import Server, run_server  # noqa: PLC0415
    from pv4fad.service.starting import network_parts  # noqa: PLC0415

    listen = Listen(host, port, certificate, certificate_key, client_ca)
    own = PartyFolder(folder)
    with (
        logging_as(log_format, own.settings().name) as say,
        network_parts(own, party_key(own, key)) as parts,
    ):
        decided = f"{parts.journal.n_decisions:,} payments decided so far"
        say(f"model of run {parts.run_id}, {decided}; alert desk: {listen.address}")
        run_server(Server(network_app(parts, tls=listen.tls), listen))


@app.command()
def bank(
    folder: Folder,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8081,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    key: StoreKey = None,
    log_format: LogFormat = "text",
) -> None:
    """Take part as `party run`, and show the alerts handed over to this bank, until interrupted."""
    require_service()
    from pv4fad.service.bank import serve_bank  # noqa: PLC0415

    listen = Listen(host, port, certificate, certificate_key)
    own = PartyFolder(folder)
    settings = own.settings()
    with logging_as(log_format, settings.name) as say:
        root_key = party_key(own, key)
        ready = f"{settings.name} is ready; inbox: {listen.address}"
        serve_bank(own, root_key, carrier_of(settings.carrier), listen, lambda: say(ready))


def require_service() -> None:
    """The service is an extra."""
    needed = ("fastapi", "uvicorn", "httptools")
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ParameterError(f"{missing[0]} is not installed: pip install 'pv4fad[service]'")

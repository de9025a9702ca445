"""The programs of Flower that a party runs beside its station: a SuperLink or a SuperNode.

They run with telemetry, update check and installation of dependencies switched off, with a home
folder inside the party's folder, and without the passphrase in their environment.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.flower.guarded import APP_FOLDER
from pv4fad.deployment.party_folder import HUB_CERTIFICATE, HUB_KEY, NODE_KEY, PartyFolder
from pv4fad.errors import DataError, StoreError
from pv4fad.files import write_whole
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.store.sealing import ENVIRONMENT as PASSPHRASE_VARIABLE

FLOWER_VERSION = "1.41.0"
FOLDER_VARIABLE, STATION_VARIABLE = "PV4FAD_FOLDER", "PV4FAD_STATION"
_HOME = "flower"  # in the party's folder
_CONNECTION = "federation"  # the name of the SuperLink in Flower's configuration
_TERMINATE_S = 10.0
_LISTENS_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 120.0
_LOG_TAIL_BYTES = 4000
_SILENT = "the SuperLink does not answer; is pv4fad party run running at the aggregator?"
_PORT_IN_USE = "the port is in use: change hub or runtime-port in party.toml"
_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": "the certificate of the SuperLink was not signed with this"
    " party's root certificate, or is for another host",
    "[code: 2004]": "the SuperLink does not know the key of this node: the aggregator needs this"
    " party's card (pv4fad party join) and a restart",
    "refused: an app": "the SuperLink handed out an app that is not the one of this PV4FAD version",
    "Address already in use": _PORT_IN_USE,
    "address already in use": _PORT_IN_USE,
}


class FlowerPrograms:
    """`pv4fad.deployment.carrier.Programs` with Flower."""

    def version(self) -> str:
        try:
            found = version("flwr")
        except PackageNotFoundError:
            raise DataError("Flower is not installed: pip install 'pv4fad[flower]'") from None
        if found != FLOWER_VERSION:
            raise DataError(f"flwr {found} is installed; PV4FAD was tested with {FLOWER_VERSION}")
        return f"flwr {found}"

    @contextmanager
    def hub(self, folder: PartyFolder, station: Path) -> Iterator[FlowerProgram]:
        """A SuperLink, with TLS and authenticated nodes."""
        self.version()
        settings = folder.settings()
        host, port = settings.listens_at
        for name in (HUB_CERTIFICATE, HUB_KEY, settings.root_certificate):
            if not folder.file(name).is_file():
                raise DataError(
                    f"{folder.file(name)} is missing (docs/operate/deployment.md, step 2)"
                )
        arguments = [
            "flower-superlink",
            *("--ssl-ca-certfile", str(folder.file(settings.root_certificate))),
            *("--ssl-certfile", str(folder.file(HUB_CERTIFICATE))),
            *("--ssl-keyfile", str(folder.file(HUB_KEY))),
            *("--host", host, "--port", str(port)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--database", str(folder.path / _HOME / "superlink.db")),
        ]
        variables = {FOLDER_VARIABLE: str(folder.path), STATION_VARIABLE: str(station)}
        with _started(folder, arguments, variables) as program:
            _wait_until_listening(host, port, program)
            _register(folder, folder.complete_cards())
            yield program

    @contextmanager
    def node(self, folder: PartyFolder, station: Path) -> Iterator[FlowerProgram]:
        """A SuperNode."""
        self.version()
        settings = folder.settings()
        root = folder.file(settings.root_certificate)
        if not root.is_file():
            raise DataError(
                f"{root} is missing: import it from the aggregator"
                " (pv4fad party join --root-certificate)"
            )
        node = f'role="{settings.role}" party="{settings.name}" station="{station}"'
        arguments = [
            "flower-supernode",
            *("--superlink", settings.hub),
            *("--root-certificates", str(root)),
            *("--auth-supernode-private-key", str(folder.file(NODE_KEY))),
            *("--node-config", node),
            *("--host", "127.0.0.1", "--port", str(settings.runtime_port)),
        ]
        with _started(folder, arguments, {}) as program:
            yield program

    def start_job(self, folder: PartyFolder, job: Job, number: int) -> None:
        """Submit the app."""
        config = f'job="{job}" number={number}'
        _control(folder, "run", str(APP_FOLDER), _CONNECTION, "--run-config", config)


@dataclass(frozen=True)
class FlowerProgram:
    """A SuperLink or a SuperNode."""

    process: subprocess.Popen[bytes]
    log: Path

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def why_it_ended(self) -> str:
        """As far as the end of its log tells."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
            tail = file.read().decode(errors="replace")
        latest = max(_REASONS, key=tail.rfind)
        if latest in tail:
            return _REASONS[latest]
        return f"exit code {self.process.returncode}; its log is {self.log}"


def flower_environment(folder: PartyFolder) -> dict[str, str]:
    """The environment variables of every program of Flower."""
    home = folder.path / _HOME
    home.mkdir(mode=0o700, exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PASSPHRASE_VARIABLE)
    }
    programs = str(Path(sys.executable).parent)
    return kept | {
        "PATH": f"{programs}{os.pathsep}{kept.get('PATH', '')}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    }


@contextmanager
def _started(
    folder: PartyFolder, arguments: list[str], variables: Mapping[str, str]
) -> Iterator[FlowerProgram]:
    environment = flower_environment(folder) | dict(variables)
    log = folder.path / _HOME / f"{arguments[0]}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pv4fad.deployment.flower.guarded", *arguments],
            stdin=subprocess.PIPE,  # its end tells the program that this process has ended
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield FlowerProgram(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _wait_until_listening(host: str, port: int, program: FlowerProgram) -> None:
    until = time.monotonic() + _LISTENS_WITHIN_S
    while time.monotonic() < until:
        if program.has_ended():
            raise StoreError(f"the SuperLink has ended: {program.why_it_ended()}")
        try:
            with socket.create_connection((host, port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise StoreError(f"the SuperLink does not listen at {host}:{port}; its log is {program.log}")


# The SuperLink's control interface, through Flower's own command.


def _register(folder: PartyFolder, cards: Mapping[str, PartyCard]) -> None:
    """Make the keys of all nodes known to the SuperLink; those it knows already stay."""
    nodes = folder.path / _HOME / "nodes"
    nodes.mkdir(mode=0o700, exist_ok=True)
    for name, card in cards.items():
        if name == AGGREGATOR:
            continue
        key = nodes / f"{name}.pub"
        if key.is_file() and key.read_text(encoding="utf-8") == card.node_key:
            continue
        new = nodes / f"{name}.new.pub"
        write_whole(new, card.node_key, private=True)
        _control(folder, "supernode", "register", str(new), _CONNECTION, "--name", name)
        new.replace(key)


def _control(folder: PartyFolder, *arguments: str) -> None:
    settings, environment = folder.settings(), flower_environment(folder)
    root = folder.file(settings.root_certificate)
    write_whole(
        folder.path / _HOME / "config.toml",
        f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
        f'address = "{settings.hub}"\nroot-certificates = "{root}"\n',
        private=True,
    )
    try:
        done = subprocess.run(  # noqa: S603
            [str(Path(sys.executable).parent / "flwr"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWERS_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"flwr {arguments[0]}: {_SILENT}") from None
    if done.returncode != 0:
        raise StoreError(f"flwr {arguments[0]}: {_plain(done.stderr or done.stdout)}")


def _plain(output: str) -> str:
    """What Flower prints in a box, as one line."""
    text = " ".join(re.sub("[\u2500-\u257f]", " ", output).split())
    return _SILENT if "unavailable" in text else text or "failed"

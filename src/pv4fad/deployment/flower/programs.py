"""Flower as carrier: beside its station a party runs a SuperLink or a SuperNode.

They run with telemetry, update check and installation of dependencies switched off, with a home
folder inside the party's folder, and without secrets in their environment.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import ssh_private_key, ssh_public_key
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.flower.asking import WINDOW_BYTES
from pv4fad.deployment.flower.guarded import APP_FOLDER
from pv4fad.deployment.flower.station_socket import open_socket
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder
from pv4fad.deployment.station import Station
from pv4fad.deployment.status import STOPPED, Status, has_stopped, read_status
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.files import whole_file, write_whole
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.store.key_sources import SECRET_VARIABLES

FLOWER_VERSION = "1.41.0"
FOLDER_VARIABLE, STATION_VARIABLE = "PV4FAD_FOLDER", "PV4FAD_STATION"
_HOME = "flower"  # in the party's folder
_CONNECTION = "federation"  # the name of the SuperLink in Flower's configuration
_LOOK_EVERY_S = 1.0
_TRY_AGAIN_S = 5.0
_TERMINATE_S = 10.0
_LISTENS_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 120.0
_LOG_TAIL_BYTES = 4000
_LOG_BYTES = 10 * 2**20  # then it is put aside when the program starts
_log = logging.getLogger("pv4fad.station")
_SILENT = "the SuperLink does not answer; is pv4fad party run running at the aggregator?"
_PORT_IN_USE = "the port is in use: change hub or runtime-port in party.toml"
_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": "the SuperLink does not have the certificate on the aggregator's"
    " card, or it is for another host",
    "[code: 2004]": "the SuperLink does not know the key of this node: the aggregator needs this"
    " party's card (pv4fad party join) and a restart",
    "refused: an app": "the SuperLink handed out an app that is not the one of this PV4FAD version",
    "Address already in use": _PORT_IN_USE,
    "address already in use": _PORT_IN_USE,
}


class FlowerCarrier:
    """`pv4fad.deployment.carrier.Carrier` with Flower."""

    window_bytes = WINDOW_BYTES

    def version(self) -> str:
        try:
            found = version("flwr")
        except PackageNotFoundError:
            raise DataError("Flower is not installed: pip install 'pv4fad[flower]'") from None
        if found != FLOWER_VERSION:
            raise DataError(f"flwr {found} is installed; PV4FAD was tested with {FLOWER_VERSION}")
        return f"flwr {found}"

    def serve(
        self,
        folder: PartyFolder,
        station: Station,
        ended: threading.Event,
        ready: Callable[[], None],
    ) -> None:
        self.version()
        run = _run_hub if folder.settings().role == AGGREGATOR else _run_node
        with open_socket(station.exchange) as path:
            run(folder, path, ended, ready)

    def is_online(self, folder: PartyFolder) -> bool:
        raise ParameterError(f"{folder.path}: Flower does not tell who is connected; see its logs")

    def start_job(self, folder: PartyFolder, job: Job) -> int:
        """Submit the app."""
        before = self.status(folder)
        if before is None and job == "resume":
            raise StoreError(f"{folder.path}: no job was started yet")
        if before is not None and before.state == "running":
            alive = not has_stopped(folder.path, before)
            if alive or job != "resume":
                what = "is running: see pv4fad federation status" if alive else STOPPED
                raise StoreError(f"job {before.number} ({before.job}): {what}")
        _control(folder, "run", str(APP_FOLDER), _CONNECTION, "--run-config", f'job="{job}"')
        return 1 if before is None else before.number + 1

    def status(self, folder: PartyFolder) -> Status | None:
        if folder.settings().role != AGGREGATOR:
            raise ParameterError(
                f"{folder.path} is not the aggregator's folder: over Flower, jobs are started there"
            )
        return read_status(folder.path)

    def require_running(self, folder: PartyFolder, running: Status) -> None:
        if has_stopped(folder.path, running):
            raise StoreError(STOPPED)


def _run_hub(
    folder: PartyFolder, station: Path, ended: threading.Event, ready: Callable[[], None]
) -> None:
    with _superlink(folder, station) as hub:
        ready()
        while not ended.wait(_LOOK_EVERY_S):
            if hub.has_ended():
                raise StoreError(f"the hub has ended: {hub.why_it_ended()}")


def _run_node(
    folder: PartyFolder, station: Path, ended: threading.Event, ready: Callable[[], None]
) -> None:
    """A node that ends is started again: the hub may not run yet, or no longer."""
    logged = ""
    while not ended.is_set():
        with _supernode(folder, station) as node:
            if not logged:
                ready()
            while not node.has_ended() and not ended.wait(_LOOK_EVERY_S):
                pass
        if ended.is_set():
            return
        reason = node.why_it_ended()
        if reason != logged:
            logged = reason
            _log.warning("not connected: %s; trying again every %.0f s", reason, _TRY_AGAIN_S)
        ended.wait(_TRY_AGAIN_S)


@contextmanager
def _superlink(folder: PartyFolder, station: Path) -> Iterator[FlowerProgram]:
    """With TLS and authenticated nodes, once it listens and knows them."""
    host, port = folder.settings().listens_at
    certificate = str(_own_file(folder, "hub.crt", folder.own_card().certificate.encode()))
    arguments = [
        "flower-superlink",
        *("--ssl-ca-certfile", certificate, "--ssl-certfile", certificate),
        *("--ssl-keyfile", str(folder.file(KEY_FILE))),
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
def _supernode(folder: PartyFolder, station: Path) -> Iterator[FlowerProgram]:
    settings = folder.settings()
    node = f'role="{settings.role}" party="{settings.name}" station="{station}"'
    key = _own_file(folder, "node", ssh_private_key(folder.file(KEY_FILE)))
    arguments = [
        "flower-supernode",
        *("--superlink", settings.hub),
        *("--root-certificates", str(_root(folder))),
        *("--auth-supernode-private-key", str(key)),
        *("--node-config", node),
        *("--host", "127.0.0.1", "--port", str(settings.runtime_port)),
    ]
    with _started(folder, arguments, {}) as program:
        yield program


def _root(folder: PartyFolder) -> Path:
    """The certificate that the SuperLink has to show."""
    return _own_file(folder, "hub.crt", folder.complete_cards()[AGGREGATOR].certificate.encode())


def _own_file(folder: PartyFolder, name: str, content: bytes) -> Path:
    """A file for Flower, in the folder that is its home."""
    path = folder.path / _HOME / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with whole_file(path, private=True) as file:
        file.write(content)
    return path


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
        name: value for name, value in os.environ.items() if not name.startswith(SECRET_VARIABLES)
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
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
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
        public = ssh_public_key(card.certificate)
        if key.is_file() and key.read_text(encoding="utf-8") == public:
            continue
        new = nodes / f"{name}.new.pub"
        write_whole(new, public, private=True)
        _control(folder, "supernode", "register", str(new), _CONNECTION, "--name", name)
        new.replace(key)


def _control(folder: PartyFolder, *arguments: str) -> None:
    settings, environment = folder.settings(), flower_environment(folder)
    root = _root(folder)
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

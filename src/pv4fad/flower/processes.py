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
from pathlib import Path

from pv4fad.errors import DataError, StoreError
from pv4fad.files import write_whole
from pv4fad.flower.card import PartyCard
from pv4fad.flower.party_folder import PartyFolder, PartySettings
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.store.sealing import ENVIRONMENT as PASSPHRASE_VARIABLE

FOLDER_VARIABLE, STATION_VARIABLE = "PV4FAD_FOLDER", "PV4FAD_STATION"
CONNECTION = "federation"  # the name of the SuperLink in Flower's configuration
_NODE_KEY = "keys/node"
_TERMINATE_S = 10.0
_ANSWERS_WITHIN_S = 120.0
_LOG_TAIL_BYTES = 4000


def flower_environment(folder: PartyFolder) -> dict[str, str]:
    """What every program of Flower is started with."""
    home = folder.path / "flower"
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
def superlink(folder: PartyFolder, settings: PartySettings, station: Path) -> Iterator[Popen]:
    """The aggregator's SuperLink, with TLS and authenticated nodes."""
    host, port = settings.listens_at
    for name in ("keys/superlink.crt", "keys/superlink.key", settings.root_certificate):
        if not folder.file(name).is_file():
            raise DataError(f"{folder.file(name)}: is missing (docs/deployment.md, certificates)")
    arguments = [
        "flower-superlink",
        *("--ssl-ca-certfile", str(folder.file(settings.root_certificate))),
        *("--ssl-certfile", str(folder.file("keys/superlink.crt"))),
        *("--ssl-keyfile", str(folder.file("keys/superlink.key"))),
        *("--host", host, "--port", str(port)),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        *("--database", str(folder.path / "flower" / "superlink.db")),
    ]
    ours = {FOLDER_VARIABLE: str(folder.path), STATION_VARIABLE: str(station)}
    with _started(folder, arguments, ours) as process:
        yield process


@contextmanager
def supernode(folder: PartyFolder, settings: PartySettings, station: Path) -> Iterator[Popen]:
    """The SuperNode of a bank or of the payment network."""
    root = folder.file(settings.root_certificate)
    if not root.is_file():
        raise DataError(
            f"{root}: is missing; the aggregator has it (pv4fad party join --root-certificate)"
        )
    node = f'role="{settings.role}" party="{settings.name}" station="{station}"'
    arguments = [
        "flower-supernode",
        *("--superlink", settings.superlink),
        *("--root-certificates", str(root)),
        *("--auth-supernode-private-key", str(folder.file(_NODE_KEY))),
        *("--node-config", node),
        *("--host", "127.0.0.1", "--port", str(settings.runtime_port)),
    ]
    with _started(folder, arguments, {}) as process:
        yield process


Popen = subprocess.Popen[bytes]


@contextmanager
def _started(
    folder: PartyFolder, arguments: list[str], variables: Mapping[str, str]
) -> Iterator[Popen]:
    environment = flower_environment(folder) | dict(variables)
    log = folder.path / "flower" / f"{arguments[0]}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pv4fad.flower.guarded", *arguments],
            stdin=subprocess.PIPE,  # its end tells the program that this process has ended
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": "the certificate of the SuperLink was not signed with this"
    " party's root certificate, or is for another host",
    "[code: 2004]": "the SuperLink does not know the key of this node: the aggregator needs this"
    " party's card (pv4fad party join) and a restart",
    "refused: an app": "the SuperLink handed out an app that is not the one of this PV4FAD version",
    "Address already in use": "the port is in use: change superlink or runtime-port in party.toml",
    "address already in use": "the port is in use: change superlink or runtime-port in party.toml",
}


def why_it_ended(folder: PartyFolder, process: Popen) -> str:
    """As far as the end of its log tells."""
    (log,) = (folder.path / "flower").glob("flower-super*.log")
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        tail = file.read().decode(errors="replace")
    found = {sign: tail.rfind(sign) for sign in _REASONS}
    sign = max(found, key=lambda one: found[one])
    if found[sign] >= 0:
        return _REASONS[sign]
    return f"exit code {process.returncode}; its log is {log}"


class Control:
    """The SuperLink's control interface, through Flower's own command."""

    def __init__(self, folder: PartyFolder, settings: PartySettings) -> None:
        self._folder = folder
        self._environment = flower_environment(folder)
        root = folder.file(settings.root_certificate)
        write_whole(
            folder.path / "flower" / "config.toml",
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "{settings.superlink}"\nroot-certificates = "{root}"\n',
            private=True,
        )

    def register(self, cards: Mapping[str, PartyCard]) -> None:
        """Make the keys of all nodes known; what is known stays."""
        nodes = self._folder.path / "flower" / "nodes"
        nodes.mkdir(mode=0o700, exist_ok=True)
        for name, card in cards.items():
            if name == AGGREGATOR:
                continue
            key = nodes / f"{name}.pub"
            if key.is_file() and key.read_text(encoding="utf-8") == card.node_key:
                continue
            new = nodes / f"{name}.new.pub"
            write_whole(new, card.node_key, private=True)
            self._call("supernode", "register", str(new), CONNECTION, "--name", name)
            new.replace(key)

    def start(self, app: Path, job: str, number: int) -> None:
        """Submit the app."""
        config = f'job="{job}" number={number}'
        self._call("run", str(app), CONNECTION, "--run-config", config)

    def _call(self, *arguments: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603
                [str(Path(sys.executable).parent / "flwr"), *arguments],
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=_ANSWERS_WITHIN_S,
            )
        except subprocess.TimeoutExpired:
            raise StoreError(
                f"flwr {' '.join(arguments[:2])}: the SuperLink has not answered within"
                f" {_ANSWERS_WITHIN_S:.0f} s; is pv4fad party run running at the aggregator?"
            ) from None
        if done.returncode != 0:
            raise StoreError(f"flwr {arguments[0]}: {_plain(done.stderr or done.stdout)}")
        return done.stdout


def _plain(text: str) -> str:
    """What Flower says in a box, as one line."""
    words = re.sub("[\u2500-\u257f]", " ", text).split()
    said = " ".join(words) or "failed"
    if "unavailable" in said:
        return "the SuperLink does not answer; is pv4fad party run running at the aggregator?"
    return said


def wait_until_listening(host: str, port: int, process: Popen, patience_s: float = 60.0) -> None:
    """Until somebody listens there; `StoreError` if the program ends first."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if process.poll() is not None:
            raise StoreError("the SuperLink has ended; its log is in the folder flower")
        try:
            with socket.create_connection((host, port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise StoreError(f"nobody listens at {host}:{port}")


def free_ports(n: int) -> list[int]:
    """Ports of this machine that nobody listens at just now, all different."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports

"""A Ray cluster on this machine, closed as docs/operate/ray.md says: nodes that can be killed."""

from __future__ import annotations

import atexit
import ipaddress
import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.kit.waiting import comes_true

from pv4fad.cli.federation_demo import free_ports

ROOT = Path(__file__).parents[2]
MINUTES = 300.0  # a busy machine takes long to start a node

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'pv4fad[ray]'"
)


def free_port() -> int:
    (port,) = free_ports(1)
    return port


@dataclass
class RayNodes:
    """Nodes of one cluster; each is a session of processes."""

    folder: Path
    ip: str
    head_port: int = field(default_factory=free_port)
    client_port: int = field(default_factory=free_port)
    started: list[subprocess.Popen] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.ip}:{self.head_port}"

    @property
    def client_address(self) -> str:
        return f"ray://{self.ip}:{self.client_port}"

    def start_head(self, n_cpus: int) -> int:
        """The number of the node."""
        return self._start(
            n_cpus,
            *("--head", "--include-dashboard", "false", "--temp-dir", self.folder / "ray"),
            *("--port", self.head_port, "--ray-client-server-port", self.client_port),
            *("--system-config", '{"automatic_object_spilling_enabled": false}'),
        )

    def start_node(self, n_cpus: int) -> int:
        return self._start(n_cpus, "--address", self.address)

    def _start(self, n_cpus: int, *options: object) -> int:
        log = self.folder / f"node{len(self.started)}.log"
        common = ("--block", "--num-cpus", n_cpus, "--object-store-memory", 400_000_000)
        ports = ("--min-worker-port", 0, "--max-worker-port", 0, "--dashboard-agent-listen-port", 0)
        ray = Path(sys.executable).with_name("ray")
        command = [ray, "start", *common, *ports, "--node-ip-address", self.ip, *options]
        with log.open("w") as output:
            node = subprocess.Popen(
                [str(part) for part in command],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(node)
        runs = "Ray runtime started"
        comes_true(lambda: node.poll() is not None or runs in log.read_text(), MINUTES)
        assert runs in log.read_text(), log.read_text()[-2000:]
        return len(self.started) - 1

    def replace(self, number: int) -> int:
        """What runs on a node never ends; it is killed when another with one CPU has started."""
        os.killpg(self.started[number].pid, signal.SIGSTOP)
        new = self.start_node(1)
        self.kill(number)
        return new

    def kill(self, number: int) -> None:
        """All processes of a node at once, as when a machine loses its power."""
        with suppress(ProcessLookupError):
            os.killpg(self.started[number].pid, signal.SIGKILL)
        self.started[number].wait()


@contextmanager
def ray_nodes():
    """No node yet.  The settings of its nodes are those of this process."""
    folder = Path(mkdtemp(prefix="pv4fad-ray-"))  # short: it holds sockets
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings().items():
            patch.setenv(name, value)
        nodes = RayNodes(folder, own_address())
        try:
            yield nodes
        finally:
            for number in reversed(range(len(nodes.started))):
                nodes.kill(number)
            shutil.rmtree(folder, ignore_errors=True)


@cache
def settings() -> dict[str, str]:
    """The same for all clusters of this process: in a process, Ray reads them once."""
    folder = Path(mkdtemp(prefix="pv4fad-ray-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    certificate, key, token = folder / "tls.crt", folder / "tls.key", folder / "token"
    token.write_text(secrets.token_hex(32))
    found = {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(certificate),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_object_spilling_directory": "/dev/shm",  # noqa: S108 - memory, not a disk
        "PYTHONPATH": str(ROOT),  # jobs of tests
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.items():
            patch.setenv(name, value)
        write_certificate(certificate, key, own_address())
    return found


def own_address() -> str:
    """As Ray finds it: never a loopback address, if there is another."""
    from ray.util import get_node_ip_address  # noqa: PLC0415

    return get_node_ip_address()


def write_certificate(certificate: Path, key_file: Path, ip: str) -> None:
    """One for all nodes, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pv4fad test")])
    now = datetime.now(UTC)
    # The server of ray:// addresses has parts that talk to each other there.
    addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in (ip, "127.0.0.1")]
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    certificate.write_bytes(signed.public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(pem, *plain))

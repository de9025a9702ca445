"""The connection of this process to a Ray cluster: it has one, which several pools may use."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray.exceptions import RayError

from pv4fad.errors import ParameterError, WorkerError
from pv4fad.workers.ray_tls import require_answer


class _Connections:
    """A process has one connection to one cluster; several pools may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._head = ""

    def open(self, address: str) -> str:
        """The address of the head, as Ray takes it."""
        head = _address_for_ray(address)
        with self._lock:
            if self._users and head != self._head:
                raise ParameterError(
                    f"workers {address}: this process uses the Ray cluster at {self._head}"
                )
            if not self._users:
                _connect(head)
            self._head = head
            self._users += 1
        return head

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                ray.shutdown()


_connections = _Connections()
open_connection, close_connection = _connections.open, _connections.close


def _connect(address: str) -> None:
    require_answer(address)
    try:
        with _signals_kept():
            ray.init(
                address, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR
            )
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise WorkerError(
            f"workers {address}: Ray refuses the connection ({reason}): are token, Ray and Python"
            " the same here and there?"
        ) from None


def _address_for_ray(address: str) -> str:
    if address == "ray":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address.startswith("ray://"):
        return address
    try:
        # Ray has a way of its own to find the cluster of this machine, and to read localhost.
        return str(canonicalize_bootstrap_address_or_die(address))
    except ConnectionError:
        raise WorkerError(
            "workers ray: this machine is not a node of a Ray cluster: start one with ray start,"
            " or give an address"
        ) from None


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes over the signal that ends a process; here its owner decides."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

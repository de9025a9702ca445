"""Jobs on the Ray cluster of one party (docs/operate/ray.md); nothing else here knows Ray.

A job goes to a node as bytes and comes back as bytes.  They are pickled, as between processes of
one machine: whoever can reach a Ray cluster can run code in it anyway.  So the cluster belongs to
the party as its own machine does, and `require_closed` refuses nodes that others could reach or
that could write secrets to a disk.

Ray runs the jobs of a node that died again, with fresh random numbers where they draw any.  Only
one result of a job is ever fetched.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Generic
from uuid import uuid4

import numpy as np
import ray
from numpy.typing import NDArray
from ray._private.state import state
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pv4fad.errors import ParameterError, Pv4fadError, WorkerError
from pv4fad.workers.ray_connection import close_connection, open_connection
from pv4fad.workers.ray_tls import require_answer
from pv4fad.workers.shared import SharedBytes
from pv4fad.workers.usage import Done, Job, Result, measured

RETRIES = 3
"""How often a job is run again whose node or process died."""
_LOOK_AGAIN_S = 1.0
_WAIT_S = 5.0
_NO_NODES_S = 60.0
_ANSWER_S = 180.0

CLOSED = {"RAY_USE_TLS": "1", "RAY_AUTH_MODE": "token"}
"""What the environment of this process must say."""
SETTINGS = CLOSED | {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_object_spilling_directory": "/dev/shm",  # noqa: S108 - memory, not a disk
}
"""What the environment of every node must say when Ray is started there."""


@dataclass(frozen=True)
class SharedObject(SharedBytes):
    """In Ray's object store, and in a worker a view of it."""

    key: str
    data: NDArray[np.uint8] | ray.ObjectRef = field(repr=False, compare=False)

    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        data: Any = self.data
        for start in range(0, len(data), size_bytes):
            yield data[start : start + size_bytes].tobytes()


@dataclass(frozen=True)
class RayJob(Generic[Result]):
    """A job under way in the cluster; what Ray holds of it goes with this object."""

    result: ray.ObjectRef
    head: str

    def done(self) -> Done[Result]:
        no_nodes_since: float | None = None
        try:
            # A cluster without nodes lets jobs wait forever; without its head, Ray soon ends the
            # process without a word.
            while not ray.wait([self.result], timeout=_WAIT_S)[0]:
                require_answer(self.head)
                now = time.monotonic()
                no_nodes_since = None if _n_cpus() else no_nodes_since or now
                if no_nodes_since and now - no_nodes_since > _NO_NODES_S:
                    raise WorkerError(
                        "the Ray cluster has no node left that runs jobs; nothing was lost: start"
                        " its nodes and run again"
                    )
            outcome = pickle.loads(ray.get(self.result))  # noqa: S301 - see above
        except RayTaskError:
            raise  # a mistake in a job: its own traceback says where
        except RayError as error:
            raise WorkerError(
                f"the Ray cluster gave a job up after {RETRIES} retries"
                f" ({type(error).__name__}); nothing was lost: see to its nodes and run again"
            ) from None
        if isinstance(outcome, Pv4fadError):
            raise outcome
        done: Done[Result] = outcome
        return done

    def cancel(self) -> None:
        ray.cancel(self.result)


class RayCluster:
    """The cluster at an address; `ray`: the one this machine is a node of."""

    n_died = 0  # Ray starts workers again by itself

    def __init__(self, address: str) -> None:
        _require_settings(CLOSED, os.environ, "this process")
        self._head = open_connection(address)
        try:
            self._closed_nodes: set[str] = set()
            self._looked_s = -math.inf
            self._look()
            self.n_workers = _n_cpus()
            if not self.n_workers:
                raise ParameterError(f"workers {address}: no node of the cluster runs jobs")
        except BaseException:
            close_connection()
            raise

    def submit(self, function: Callable[[Job], Result], job: Job) -> RayJob[Result]:
        self._look()
        packer = _Packer(buffer := io.BytesIO())
        packer.dump((function, job))
        return RayJob(_RUN.remote(ray.put(buffer.getvalue()), *packer.shared), self._head)

    def share(self, chunks: Iterable[bytes]) -> SharedBytes:
        # As an array, workers of a node share it; bytes would be copied for every job.
        data = np.frombuffer(b"".join(chunks), np.uint8)
        return SharedObject(uuid4().hex, ray.put(data))

    def close(self) -> None:
        close_connection()

    def _look(self) -> None:
        """Nodes come and go; one that is not closed to others gets no job."""
        if time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
            return
        require_answer(self._head)
        self._looked_s = time.monotonic()
        new = {
            node_id: (address, _DESCRIBE_NODE.options(scheduling_strategy=_only(node_id)).remote())
            for node_id, address in _nodes().items()
            if node_id not in self._closed_nodes
        }
        for node_id, (address, description) in new.items():
            try:
                found = ray.get(description, timeout=_ANSWER_S)
            except RayError as error:
                if node_id in _nodes():
                    raise WorkerError(
                        f"the Ray node at {address} does not run PV4FAD: is pv4fad[ray] installed"
                        f" there? ({type(error).__name__})"
                    ) from None
                continue  # it has died in the meantime
            require_closed(address, found)
            self._closed_nodes.add(node_id)


def _nodes() -> dict[str, str]:
    """Those alive, with their addresses."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def _only(node_id: str) -> Any:
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


@dataclass(frozen=True)
class Node:
    """What a node says of itself."""

    settings: Mapping[str, str]
    spills: bool
    version: str


def require_closed(address: str, node: Node) -> None:
    """Refuse a node that others could reach, that could write to a disk, or of another version."""
    _require_settings(SETTINGS, node.settings, f"the Ray node at {address}")
    if node.spills:
        raise ParameterError(
            "the Ray cluster writes objects to disks: start its head with"
            """ --system-config '{"automatic_object_spilling_enabled": false}'"""
        )
    if node.version != version("pv4fad"):
        raise ParameterError(
            f"the Ray node at {address} has PV4FAD {node.version}, this process"
            f" {version('pv4fad')}: install the same"
        )


def _require_settings(
    settings: Mapping[str, str], environment: Mapping[str, str], where: str
) -> None:
    for name, value in settings.items():
        if environment.get(name) != value:
            raise ParameterError(
                f"{where} was started without {name}={value}: see docs/operate/ray.md"
            )


def _n_cpus() -> int:
    return int(ray.cluster_resources().get("CPU", 0))


class _Packer(pickle.Pickler):
    """Leaves shared bytes out: Ray passes them by reference, and counts the references."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.shared: list[ray.ObjectRef] = []

    def persistent_id(self, thing: Any) -> tuple[str, int] | None:
        if not isinstance(thing, SharedObject):
            return None
        self.shared.append(thing.data)
        return thing.key, len(self.shared) - 1


class _Unpacker(pickle.Unpickler):
    """Puts them back."""

    def __init__(self, data: bytes, shared: tuple[NDArray[np.uint8], ...]) -> None:
        super().__init__(io.BytesIO(data))
        self._shared = shared

    def persistent_load(self, pid: tuple[str, int]) -> SharedObject:
        key, index = pid
        return SharedObject(key, self._shared[index])


def _run(data: bytes, *shared: NDArray[np.uint8]) -> bytes:
    """In a worker."""
    outcome: Any
    try:
        outcome = measured(*_Unpacker(data, shared).load())
    except Pv4fadError as error:
        outcome = error
    return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)


def _describe_node() -> Node:
    """In a worker of the node."""
    spills = state.get_system_config().get("automatic_object_spilling_enabled", True)
    settings = {name: os.environ.get(name, "") for name in SETTINGS}
    return Node(settings, bool(spills), version("pv4fad"))


_RUN = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(_run)
_DESCRIBE_NODE = ray.remote(num_cpus=0, max_retries=0)(_describe_node)

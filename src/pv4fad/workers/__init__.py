"""Workers for HE: the library holds the interpreter's lock, so jobs run in other processes.

    WorkerPool()                     one process per core of this machine
    WorkerPool(4), WorkerPool(0)     four of them; none: every job runs in this process
    WorkerPool("ray")                the party's own Ray cluster, which this machine is a node of
    WorkerPool("ray://host:10001")   a cluster elsewhere; also host:6379, the head of this node's

Jobs and results are plain data: bytes and arrays.  Results come in the order of the jobs, and only
a few jobs are under way at a time, so that memory depends on the size of a job and not on their
number.  The death of a worker process is a `WorkerError`; a Ray cluster runs the jobs of a node
that died again.  Errors that a job raises on purpose pass through.

Every job is a function of its data and of fresh random numbers, and changes nothing.  So it may
run twice: exactly one of its results is ever used, the one that `map` yields, and the other never
leaves the party.
"""

from __future__ import annotations

from pv4fad.workers.pool import WorkerPool, Workers, given_workers
from pv4fad.workers.shared import SharedBytes, SharedFile
from pv4fad.workers.usage import Usage, available_cores, peak_memory_bytes

__all__ = [
    "SharedBytes",
    "SharedFile",
    "Usage",
    "WorkerPool",
    "Workers",
    "available_cores",
    "given_workers",
    "peak_memory_bytes",
]

"""Bytes that many jobs read: kept once, not sent with every job.

    shared = pool.share(chunks)        as long as somebody holds `shared`
    SomeJob(shared, ...)               in a worker: shared.pieces(size)

Equal only to itself and to what a worker got of it, so that a worker can keep what it made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize


class SharedBytes(ABC):
    """What jobs hold of them."""

    @abstractmethod
    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        """All of them, in pieces of this size."""


@dataclass(frozen=True)
class SharedFile(SharedBytes):
    """For workers on this machine: a file."""

    path: Path

    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while data := file.read(size_bytes):
                yield data


def shared_file(chunks: Iterable[bytes]) -> SharedFile:
    """A file in a folder of its own, which goes when nobody holds the result any more."""
    folder = Path(mkdtemp(prefix="pv4fad-"))
    shared = SharedFile(folder / "shared")
    finalize(shared, rmtree, folder, ignore_errors=True)
    with shared.path.open("wb") as file:
        file.writelines(chunks)
    return shared

"""Large bytes between processes of this machine: through a file in memory, not through a pipe.

A pipe takes 64 kB at a time, and both ends copy; it costs as much as some of the jobs.  So a job
goes in a parcel: its large bytes into a file that exists in memory alone and has no name, all else
into a short pickle.  The worker opens the file by way of the process that made it, and puts the
large bytes of its result into the same file.  Nothing is left when a process dies.

The parcel must be kept until the result has been unpacked.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from pv4fad.errors import WorkerError

_LARGE = 2**16
# For each file that may be open an entry; the whole process may have 1024, often.  No lock: garbage
# is collected at any moment.
_free = [None] * 128


def new_parcel() -> Parcel | None:
    """None where there are no such files, or enough of them are open: a pipe has to do."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        _free.pop()
    except IndexError:
        return None
    try:
        return Parcel(os.memfd_create("pv4fad", os.MFD_CLOEXEC))
    except OSError:  # not allowed here, or too many files are open
        _free.append(None)
        return None


class Parcel:
    """The file, in the process that made it."""

    def __init__(self, file: int) -> None:
        self._file = file

    def pack(self, content: object) -> Packed:
        """For a worker."""
        return _pack(content, self._file, f"/proc/{os.getpid()}/fd/{self._file}")

    def unpack(self, packed: Packed) -> Any:
        """What a worker has packed."""
        return _unpack(packed, self._file)

    def __del__(self) -> None:
        os.close(self._file)
        _free.append(None)


@dataclass(frozen=True)
class Packed:
    """What goes through the pipe."""

    path: str
    file: tuple[int, int]  # which one it must be: device and number
    sizes: tuple[int, ...]  # of what is in the file, one after the other
    rest: bytes = field(repr=False)

    def answered(self, answer: Callable[[Any], object]) -> Packed:
        """In a worker: what `answer` makes of the content, in the same parcel."""
        with _opened(self.path) as file:
            if _which(file) != self.file:
                raise WorkerError("the data of a job is gone")
            return _pack(answer(_unpack(self, file)), file, self.path)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _which(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def _pack(content: object, file: int, path: str) -> Packed:
    rest = BytesIO()
    packer = _Packer(rest)
    packer.dump(content)
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    if any(os.write(file, data) != len(data) for data in packer.large):
        raise WorkerError("no memory for the data of a job")
    return Packed(path, _which(file), tuple(map(len, packer.large)), rest.getvalue())


def _unpack(packed: Packed, file: int) -> Any:
    os.lseek(file, 0, os.SEEK_SET)
    large = [os.read(file, size) for size in packed.sizes]
    if tuple(map(len, large)) != packed.sizes:
        raise WorkerError("the data of a job is not whole")
    return _Unpacker(packed.rest, large).load()


class _Packer(pickle.Pickler):
    """Leaves large bytes out, with their number in their place."""

    def __init__(self, buffer: BytesIO) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.large: list[bytes] = []

    def persistent_id(self, obj: object) -> int | None:
        if type(obj) is not bytes or len(obj) < _LARGE:
            return None
        self.large.append(obj)
        return len(self.large) - 1


class _Unpacker(pickle.Unpickler):
    """Puts them back."""

    def __init__(self, rest: bytes, large: list[bytes]) -> None:
        super().__init__(BytesIO(rest))
        self._large = large

    def persistent_load(self, pid: int) -> bytes:
        return self._large[pid]

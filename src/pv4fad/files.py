"""Files that appear in one piece: whoever looks sees the old one, the new one, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pv4fad.errors import DataError


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Written under another name, then put in its place, all of it on the disk; if that fails,
    nothing is left of it.

    `private`: for its owner's eyes only.
    """
    if _is_device(path):
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)  # of a process with this number that was killed here
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(new, flags, 0o600 if private else 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise


def write_whole(path: Path, text: str, *, private: bool = False) -> None:
    """A text in one piece."""
    with whole_file(path, private=private) as file:
        file.write(text.encode())


def write_folder(path: Path, texts: Mapping[str, str]) -> None:
    """A new folder with these files, by name, for its owner's eyes only: all of it or nothing."""
    require_new_folder(path)
    path = path.resolve()
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent))
    try:
        for name, text in texts.items():
            write_whole(new / name, text, private=True)
        new.replace(path)
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def sync_folder(folder: Path) -> None:
    """What was made or renamed in it keeps its name if the power fails now."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_new_folder(path: Path) -> None:
    """Refuse a folder that holds something, and one that cannot be made."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise DataError(f"{path}: is not a folder; choose another one")
    if path.is_dir() and any(path.iterdir()):
        raise DataError(f"{path}: is not empty; choose a new folder")
    if not path.resolve().parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.resolve().parent}")


def require_new_file(path: Path) -> None:
    """Refuse to overwrite, and what cannot be written."""
    if path.exists() or path.is_symlink():
        raise DataError(f"{path}: already exists; choose another file")
    require_writable(path)


def require_writable(*paths: Path | None) -> None:
    """Refuse a place where no file can be written, before any work is done for it."""
    for path in paths:
        if path is not None:
            _require_writable(path)


def _require_writable(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: is a folder; choose a file name")
    if _is_device(path):
        return
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path}: cannot be written ({reason}); choose another file") from None


def _is_device(path: Path) -> bool:
    """Such as /dev/stdout, wherever that leads: nothing that could be replaced."""
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or path.absolute().parts[1:2] in (("dev",), ("proc",))

"""`pv4fad party restore`: a party's folder from a backup.  It waits for what the others hold
(`catching_up`) before it takes part again."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from pv4fad.audit.catch_up import mark_restored
from pv4fad.audit.live_marks import MARKS_FILE
from pv4fad.deployment.backup import (
    FILES,
    JOURNAL,
    JOURNAL_FILE,
    MANIFEST,
    MARKS,
    SEAL,
    STORE,
    TICKS_FILE,
    BackupKey,
    Manifest,
    backup_sealer,
    copy_hashed,
    opened_documents,
    opened_seal,
)
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.status import end_job
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.files import require_new_folder, write_whole
from pv4fad.protocol.live.budget import spend_all_of_today
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.randomness import secret_bytes
from pv4fad.store.disk import DiskStore
from pv4fad.store.records import Records
from pv4fad.store.sealing import RootKey
from pv4fad.validated import problems_text

_SMALL_BYTES = 2**24
_NAMES = {STORE, JOURNAL, MARKS, FILES}


def read_manifest(path: Path) -> Manifest:
    """What a backup says it holds; not checked against its content yet."""
    with _opened(path) as archive:
        return _manifest(path, archive)


def restore_backup(path: Path, folder: Path, root_key: RootKey) -> str:
    """Make the folder, which must be new; returns the code for the others' files."""
    require_new_folder(folder)
    made = folder.absolute().with_name(f".{folder.name}.{secret_bytes(4).hex()}.new")
    try:
        made.mkdir(mode=0o700)
        with _opened(path) as archive:
            manifest = _manifest(path, archive)
            seal = _content(path, archive, SEAL)
            for name, part in manifest.parts.items():
                with (made / name).open("xb") as target:
                    (made / name).chmod(0o600)
                    found = copy_hashed(_stream(path, archive, name), target)
                if found != part:
                    raise DataError(f"{path} is damaged: {name} is not what was saved")
        code = _completed(made, manifest, seal, root_key)
        made.rename(folder)
    except OSError as error:
        raise DataError(f"{folder} cannot be restored: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return code


def _completed(made: Path, manifest: Manifest, seal: bytes, root_key: RootKey) -> str:
    with DiskStore.open(made, root_key) as store:
        with store.transaction() as tx:
            sealer = backup_sealer(Records.of_party(tx).get(BackupKey))
        opened_seal(sealer, manifest, seal)
        documents = opened_documents(sealer, (made / FILES).read_bytes())
        code = mark_restored(store)
    (made / FILES).unlink()
    for name, text in documents.items():
        target = made / name
        if not target.resolve().is_relative_to(made.resolve()):
            raise StoreError(f"the backup has a file outside of the folder: {name}")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(target, text, private=True)
    for name, path in ((JOURNAL, made / JOURNAL_FILE), (MARKS, made / MARKS_FILE)):
        if name in manifest.parts:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            (made / name).rename(path)
    note_restored_beside_store(PartyFolder(made))
    return code


def note_restored_beside_store(folder: PartyFolder) -> None:
    """Nobody has counted live queries since the backup: today there are no more.  The job of that
    time may be over long since: a hub does not go on with it."""
    if folder.settings().role == BANK:
        spend_all_of_today(folder.path / TICKS_FILE, datetime.now(UTC).date().isoformat())
    if folder.settings().role == AGGREGATOR:
        end_job(folder.path, "the aggregator was restored: continue with pv4fad federation resume")


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r:") as archive:
            yield archive
    except (tarfile.TarError, EOFError):
        raise DataError(f"{path} is not a backup, or is damaged") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None


def _manifest(path: Path, archive: tarfile.TarFile) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(_content(path, archive, MANIFEST))
    except (ValidationError, ParameterError) as error:
        why = problems_text(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(f"{path} is not a backup of this version of the program: {why}") from None
    if not {STORE, FILES} <= set(manifest.parts) <= _NAMES:
        raise DataError(f"{path} is not a backup: it has other parts")
    return manifest


def _stream(path: Path, archive: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise DataError(f"{path} is not a backup, or is damaged: {name} is missing")
    return found


def _content(path: Path, archive: tarfile.TarFile, name: str) -> bytes:
    return _stream(path, archive, name).read(_SMALL_BYTES)

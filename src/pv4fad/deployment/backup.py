"""`pv4fad party backup`: one file with all that a party needs to go on, while it may be running.

    manifest.json   what is in it: versions, time, sizes and digests, how far the ledger is
    seal            the digest of the manifest, sealed
    store.db        a consistent copy; its records are sealed in it
    journal.db      of a payment network with a live service, likewise
    marks.jsonl     of live messages, which hold no secret
    files           settings, cards, keys and documents, sealed together

What is sealed here is sealed with a key that is a record of the store, so the file opens with the
store's root key and nothing else, and that key is nowhere in it.  Not in it are data files,
predictions, the snapshot of known payments, which is made again, and whatever is outside of the
folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, ClassVar, Literal

from pv4fad import __version__
from pv4fad.audit.live_marks import MARKS_FILE
from pv4fad.audit.log import ledger_mark
from pv4fad.audit.log_file import LoggedMark
from pv4fad.deployment.party_folder import CARD_FILE, KEY_FILE, SETTINGS_FILE, PartyFolder
from pv4fad.errors import StoreError
from pv4fad.files import require_new_file, whole_file
from pv4fad.randomness import secret_bytes
from pv4fad.store.file import FILE_NAME, copy_database
from pv4fad.store.records import Record, Records
from pv4fad.store.sealing import KEY_BYTES, RootKey, Sealer
from pv4fad.validated import ValidatedModel

MANIFEST, SEAL, FILES = "manifest.json", "seal", "files"
STORE, JOURNAL, MARKS = "store.db", "journal.db", "marks.jsonl"
JOURNAL_FILE = "live/journal.db"
TICKS_FILE = "live/ticks.json"
_LABEL = ("pv4fad backup", 1)
_DOCUMENTS = (
    SETTINGS_FILE,
    CARD_FILE,
    KEY_FILE,
    "cards/*.json",
    "runs/*/run.json",
    "live/access.json",
    TICKS_FILE,
    "status.json",
    "rules.toml",
)
_COPY_BYTES = 2**20


@dataclass(frozen=True)
class BackupKey(Record):
    """Seals what a backup has beside the store."""

    of_all_runs: ClassVar[bool] = True

    key: bytes = field(repr=False)


class Part(ValidatedModel):
    """One file in a backup."""

    size_bytes: int
    sha256: str


class Manifest(ValidatedModel):
    """What is in a backup; in the clear."""

    format: Literal["pv4fad backup"] = "pv4fad backup"
    version: Literal[1] = 1
    program: str
    party: str
    time: str
    ledger: LoggedMark
    parts: dict[str, Part]

    def digest(self) -> bytes:
        return hashlib.sha256(self.model_dump_json().encode()).digest()


def write_backup(folder: PartyFolder, root_key: RootKey, out: Path) -> Manifest:
    """All of it or nothing; `out` must be new, and is for its owner's eyes only."""
    require_new_file(out)
    try:
        return _written(folder, root_key, out)
    except OSError as error:
        raise StoreError(f"the backup {out} cannot be written: {error.strerror}") from None


def _written(folder: PartyFolder, root_key: RootKey, out: Path) -> Manifest:
    with (
        folder.visit_store(root_key) as store,
        tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as beside,
    ):
        with store.transaction() as tx:
            records = Records.of_party(tx)
            kept = records.find(BackupKey)
            if kept is None:
                kept = BackupKey(secret_bytes(KEY_BYTES))
                records.put(kept)
            mark, sealer = ledger_mark(tx), backup_sealer(kept)
        copies = Path(beside)
        # The journal first: what it hands over to the store meanwhile is then in both.
        if (folder.path / JOURNAL_FILE).is_file():
            copy_database(folder.path / JOURNAL_FILE, copies / JOURNAL)
        if (folder.path / MARKS_FILE).is_file():
            shutil.copyfile(folder.path / MARKS_FILE, copies / MARKS)
        copy_database(folder.path / FILE_NAME, copies / STORE)
        documents = json.dumps(dict(_documents(folder))).encode()
        (copies / FILES).write_bytes(sealer.seal(documents, (*_LABEL, FILES)))
        manifest = Manifest(
            program=__version__,
            party=store.party,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            ledger=LoggedMark.of(mark),
            parts={path.name: _part(path) for path in sorted(copies.iterdir())},
        )
        seal = sealer.seal(manifest.digest(), (*_LABEL, SEAL))
        with whole_file(out, private=True) as file, tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, MANIFEST, manifest.model_dump_json().encode())
            _add(archive, SEAL, seal)
            for name, part in manifest.parts.items():
                with (copies / name).open("rb") as copy:
                    archive.addfile(_member(name, part.size_bytes), copy)
    return manifest


def backup_sealer(key: BackupKey) -> Sealer:
    return Sealer(key.key)


def opened_seal(sealer: Sealer, manifest: Manifest, seal: bytes) -> None:
    """`StoreError` unless the manifest is the one that was sealed."""
    if sealer.open(seal, (*_LABEL, SEAL)) != manifest.digest():
        raise StoreError("the manifest of the backup was changed")


def opened_documents(sealer: Sealer, sealed: bytes) -> dict[str, str]:
    """The texts of small files, by their path in the folder."""
    found: dict[str, str] = json.loads(sealer.open(sealed, (*_LABEL, FILES)))
    return found


def copy_hashed(source: IO[bytes], target: IO[bytes] | None) -> Part:
    """Size and digest of what is read, written to the target."""
    hashed, size = hashlib.sha256(), 0
    while block := source.read(_COPY_BYTES):
        hashed.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Part(size_bytes=size, sha256=hashed.hexdigest())


def _documents(folder: PartyFolder) -> Iterator[tuple[str, str]]:
    settings = folder.settings()
    named = (settings.data_schema, settings.metrics_certificate, settings.metrics_key)
    found = [path for pattern in _DOCUMENTS for path in sorted(folder.path.glob(pattern))]
    for path in (*found, *(folder.file(name).resolve() for name in named if name)):
        if path.is_relative_to(folder.path) and path.is_file():
            yield str(path.relative_to(folder.path)), path.read_text(encoding="utf-8")


def _part(path: Path) -> Part:
    with path.open("rb") as file:
        return copy_hashed(file, None)


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o600
    return member


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_member(name, len(content)), io.BytesIO(content))

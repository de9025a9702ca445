"""Versions, hashes, and what the signed logs of the parties show."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pv4fad import __version__
from pv4fad.attack.findings import FILE_NAME
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.verify import Audit, verify_logs
from pv4fad.protocol.identity import stored_identity
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK, in_words
from pv4fad.report.content import Gap
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RUN_FILE, RunFolder
from pv4fad.run.scoring_record import record_path
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import RootKey

NO_LOGS = "none was read: give --key-file for those in the stores, or --log for exported ones"


@dataclass(frozen=True)
class Integrity:
    """How somebody else can tell that this is about these files and these parties."""

    program: str
    origin: str
    """Of the program that wrote the dossier."""
    run_program: str
    schema_digest: str
    commitment: str
    files: dict[str, str]
    """Name in the folder of the run: SHA-256."""
    parties: tuple[tuple[str, str, int], ...]
    """Whose log was read: name, fingerprint of its key, messages in it."""
    audit: Audit | None
    """None: there is no log."""
    gaps: tuple[Gap, ...]

    def numbers(self) -> dict[str, Any]:
        """For JSON."""
        names = ("party", "fingerprint", "messages")
        found = {name: value for name, value in vars(self).items() if name != "gaps"}
        return found | {
            "parties": [dict(zip(names, one, strict=True)) for one in self.parties],
            "audit": None if self.audit is None else asdict(self.audit),
        }


def integrity(
    folder: RunFolder,
    document: RunDocument,
    predictions: Path,
    origin: str,
    logs: Sequence[LogFile],
) -> Integrity:
    """`logs`: of as many parties as there are."""
    expected = {PAYMENT_NETWORK, *document.parameters.banks, AGGREGATOR}
    missing = sorted(expected - {log.party for log in logs})
    gaps = []
    if missing and logs:
        names = in_words(", ".join(missing), document.data_schema.words)
        gaps.append(Gap("Signed logs", f"not of {names}: pv4fad audit export"))
    elif missing:
        gaps.append(Gap("Signed logs", NO_LOGS))
    attack = folder.path / PAYMENT_NETWORK / FILE_NAME
    files = (folder.path / RUN_FILE, predictions, record_path(predictions), attack)
    return Integrity(
        program=__version__,
        origin=origin,
        run_program=document.program,
        schema_digest=document.parameters.schema_digest,
        commitment=document.parameters.commitment,
        files={file.name: _digest(file) for file in files if file.is_file()},
        parties=tuple(
            (log.party, log.public.fingerprint, sum(len(chain.messages) for chain in log.chains))
            for log in logs
        ),
        audit=verify_logs(logs, [document.parameters]) if logs else None,
        gaps=tuple(gaps),
    )


def logs_in(folder: RunFolder, parties: Iterable[str], root_key: RootKey) -> list[LogFile]:
    """Of the parties whose store is in the folder of the run, and has signed something."""
    held = [party for party in parties if holds_store(folder.path / party)]
    logs = []
    with folder.stores(held, root_key) as stores:
        for store in stores.values():
            identity = stored_identity(store)
            if identity is not None:
                logs.append(LogFile.of(store, identity))
    return logs


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

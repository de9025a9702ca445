"""Match all accounts of a run anew: because bank records have changed, or to have new keys.

Both are the same thing.  The join is kept as shares: u_k with the payment network, and s_k under
the key of the bank.  A new key cannot open what was encrypted under the old one, and nobody can
carry s_k over without seeing it; so new keys need new shares, and those come from a new match.
When it is complete, every party forgets the old shares and keys.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pv4fad.lead.prepare import bank_directory, bank_records
from pv4fad.lead.site import Site, load_banks, members
from pv4fad.lead.trained_run import TrainedRun
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PREPARE, PhaseCost, Progress, Report


@dataclass(frozen=True)
class Rematched:
    """What was done."""

    document: RunDocument
    phases: tuple[PhaseCost, ...]


def match_anew(
    split: Path,
    folder: RunFolder,
    site: Site,
    *,
    records_may_differ: bool,
    report: Report = lambda _: None,
) -> Rematched:
    """All accounts that the payment network has met, against the account files in `split`."""
    document = folder.require_finished()
    started = time.monotonic()
    accounts, schema = load_banks(split, folder, document), document.parameters.atoms
    records = {bank: bank_records(frame, schema) for bank, frame in accounts.items()}
    prepared = PhaseCost(phase=PREPARE, seconds=time.monotonic() - started)
    report(Progress(prepared, total=0, under_way=False))
    with members(folder, records, site) as federation:
        run = TrainedRun(federation, document.parameters, bank_directory(accounts), report)
        if not records_may_differ:
            run.require_same_accounts()
        run.match_anew()
    return Rematched(document, (prepared, *run.meter.phases))

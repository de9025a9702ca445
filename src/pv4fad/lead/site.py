"""A federation of one machine: its run folder, its passphrase, its parties with their stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.lead.bank_files import load_bank
from pv4fad.lead.federation import Federation
from pv4fad.lead.members import assemble, party_names
from pv4fad.payments.challenge import read_partition
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import Passphrase
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Site:
    """Where a federation of one machine runs: one passphrase for all its stores."""

    passphrase: Passphrase
    first_limit: Epsilon | None = None
    """The ε that a bank without a limit allows; None: nothing."""
    workers: int | None = None
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY
    """How many scoring layers each bank answers per table and day."""


@contextmanager
def members(
    folder: RunFolder,
    records: Mapping[str, BankRecords],
    site: Site,
    *,
    create: bool = False,
    honest_banks: int = 1,
) -> Iterator[Federation]:
    """The parties of a run with their stores and worker processes."""
    with (
        folder.stores(party_names(records), site.passphrase, create=create) as stores,
        WorkerPool(site.workers) as pool,
    ):
        yield assemble(
            stores,
            records,
            pool,
            first_limit=site.first_limit,
            honest_banks=honest_banks,
            layers_per_day=site.layers_per_day,
        )


def load_banks(split: Path, folder: RunFolder, document: RunDocument) -> dict[str, pl.DataFrame]:
    """The account file of every bank of a run, in the order of the run."""
    files, banks = read_partition(split).accounts, document.parameters.banks
    if set(files) != set(banks):
        raise DataError(
            f"{split} has the banks {', '.join(files)}; the run in {folder.path} has "
            f"{', '.join(banks)}"
        )
    return {bank: load_bank(files[bank]) for bank in banks}

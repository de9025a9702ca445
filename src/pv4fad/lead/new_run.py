"""A new run from data frames: what every party brings, and the first message.

For use from Python, with stores in memory or on disk:

    new = prepare_run(transactions, accounts, TrainingSettings(epsilon="1"))
    stores = {party: MemoryStore(party) for party in party_names(accounts)}
    with WorkerPool() as pool:
        federation = assemble(stores, new.records, pool, first_limit=Fraction(1))
        begin_run(federation, new)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from pv4fad.errors import DataError
from pv4fad.forest.forest_file import NONCE_BYTES
from pv4fad.lead.commitment import commitment
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.own_model import OwnModel
from pv4fad.lead.payments import fingerprint
from pv4fad.lead.prepare import (
    PreparedEvidence,
    bank_directory,
    bank_records,
    prepare_payment_network,
)
from pv4fad.lead.settings import TrainingSettings
from pv4fad.parties.in_process import Observer
from pv4fad.privacy.effective import default_honest_banks
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Record, Records, stored
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel

_SEED_BYTES = 16


class TrainingRecord(ValidatedModel):
    """What the payment network keeps to itself, and needs to show later what it did."""

    settings: TrainingSettings
    seed: int
    nonce: str
    """Hex; opens the commitment to what was counted."""
    transactions: str
    """Fingerprint of its data."""


@dataclass(frozen=True)
class TrainingNotes(Record):
    """In the payment network's store."""

    private: TrainingRecord = field(repr=False)


@dataclass(frozen=True)
class NewRun:
    """All that the parties bring; nothing is stored or sent yet."""

    parameters: RunParameters
    training: TrainingInput = field(repr=False)
    records: Mapping[str, BankRecords] = field(repr=False)
    private: TrainingRecord = field(repr=False)
    own: OwnModel | None = field(repr=False)
    """The payment network's own; None: the paper's model needs none."""

    @property
    def commitment(self) -> bytes:
        """To what is counted, and the trees if there are any; public."""
        return commitment(self.training, bytes.fromhex(self.private.nonce))


def prepare_run(
    transactions: pl.DataFrame, accounts: Mapping[str, pl.DataFrame], settings: TrainingSettings
) -> NewRun:
    """The payment network's transactions and each bank's accounts, as the loaders give them."""
    directory = bank_directory(accounts)
    sizes = {bank: frame.height for bank, frame in accounts.items()}
    new = prepare_network_run(transactions, directory, sizes, settings)
    schema = new.parameters.atoms
    records = {bank: bank_records(frame, schema) for bank, frame in accounts.items()}
    return replace(new, records=records)


def prepare_network_run(
    transactions: pl.DataFrame,
    directory: Mapping[str, str],
    bank_accounts: Mapping[str, int],
    settings: TrainingSettings,
) -> NewRun:
    """The payment network's part alone; the banks bring their records themselves.

    `directory`: BIC → bank; `bank_accounts`: how many accounts each bank declares.
    """
    if not bank_accounts:
        raise DataError("there are no banks beside the payment network")
    seed = settings.seed
    if seed is None:
        seed = int.from_bytes(secret_bytes(_SEED_BYTES), "big")
    prepared = prepare_payment_network(transactions, directory, settings, seed)
    training = prepared.training
    parameters = run_parameters(
        training,
        bank_accounts,
        bound=settings.bound,
        epsilon=settings.exact_epsilon,
        noise=settings.noise_mode,
        honest_banks=settings.honest_banks or default_honest_banks(len(bank_accounts)),
        mode=settings.mode,
        counted=settings.sets if settings.model == "evidence" else None,
        absent=settings.absent if settings.model == "evidence" else None,
    )
    private = TrainingRecord(
        settings=settings,
        seed=seed,
        nonce=secret_bytes(NONCE_BYTES).hex(),
        transactions=fingerprint(transactions),
    )
    own = prepared.own if isinstance(prepared, PreparedEvidence) else None
    return NewRun(parameters, training, {}, private, own)


def begin_run(federation: LedFederation, new: NewRun, observer: Observer | None = None) -> None:
    """Propose the run and carry it through."""
    run_id = new.parameters.run_id
    with federation.payment_network.store.transaction() as tx:
        records = Records(tx, run_id)
        records.put(TrainingNotes(new.private))
        if new.own is not None:
            new.own.store(records)
    federation.train(new.parameters, new.training, observer)


def read_training_record(store: Store, run_id: str) -> TrainingRecord:
    """How a run came about, from the payment network's store."""
    return stored(store, run_id, TrainingNotes).private

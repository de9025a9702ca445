"""Start the service of a payment network from its folder: `pv4fad serve payment-network`.

It is a guest of the store: a station can run beside it, and train.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import polars as pl

from pv4fad.deployment.card import Role, directory
from pv4fad.deployment.envelope import Correspondence
from pv4fad.deployment.hub.live import LiveQuestions
from pv4fad.deployment.job_notes import read_notes
from pv4fad.deployment.jobs import RUNS
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.running import own_identity
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.lead.data import load_rows
from pv4fad.lead.desk_labels import as_trained, used_labels
from pv4fad.lead.judging import Judging
from pv4fad.lead.prepare import read_training_record
from pv4fad.lead.score import checked_share
from pv4fad.run.folder import RunFolder
from pv4fad.service.access import Tokens, Use
from pv4fad.service.journal import Journal, journal_key
from pv4fad.service.known_payments import KnownPayments
from pv4fad.service.local_engine import LocalEngine
from pv4fad.service.notices import LiveNotices
from pv4fad.service.parts import Parts
from pv4fad.service.watch import Expected, Watch
from pv4fad.store.sealing import Passphrase


def require_role(folder: PartyFolder, role: Role) -> None:
    if folder.settings().role != role:
        raise ParameterError(f"{folder.path} is not the folder of a {role}")


def require_token(folder: PartyFolder, use: Use) -> None:
    """Somebody must be able to use the service."""
    if not any(holder.use == use for holder in Tokens(folder.path).holders()):
        raise ParameterError(
            f"nobody has a token for {use}: create one with pv4fad desk token {folder.path}"
            f" --name NAME --use {use}"
        )


@contextmanager
def network_parts(folder: PartyFolder, passphrase: Passphrase) -> Iterator[Parts]:
    """What the service of a payment network needs, with its journal open."""
    require_role(folder, "payment-network")
    require_token(folder, "desk")
    settings, schema, cards = folder.settings(), folder.schema(), folder.complete_cards()
    banks = directory(cards)
    live = None
    with folder.visit_store(passphrase) as store:
        run_id = read_notes(store).run_id
        if not run_id:
            raise StoreError("there is no model yet: pv4fad federation start train")
        parameters = RunFolder(folder.path / RUNS / run_id).require_finished().parameters
        trained = read_training_record(store, run_id)
        share = checked_share(settings.alert_share, trained.settings)
        if share is None:
            raise ParameterError("the paper's model cannot be served: train with model evidence")
        judging = Judging.stored(store, parameters, banks, share)
        labels = used_labels(store, run_id)
        key = journal_key(store)
        correspondence = Correspondence(own_identity(folder, store), cards)

    def training() -> pl.DataFrame:
        path = folder.file(settings.data)
        rows = load_rows(schema, path, labels_required=True)
        found = as_trained(schema, labels, rows, trained.transactions)
        if found is None:
            raise DataError(f"{path} does not hold the transactions that the run was trained on")
        return found

    if settings.carrier == "hub":
        live = LiveQuestions(folder, correspondence)
    expected = Expected.of(judging.own.histograms, judging.own.knowledge)
    with (
        Journal.open(folder.path, key) as journal,
        closing(
            KnownPayments(
                schema,
                journal,
                folder.path,
                key,
                training=training,
                fingerprint=trained.transactions,
            )
        ) as known,
    ):
        yield Parts(
            schema=schema,
            folder=folder.path,
            journal=journal,
            rows=known,
            engine=LocalEngine(judging),
            watch=Watch(expected),
            directory=banks,
            run_id=run_id,
            carrier=None if live is None else LiveNotices(live),
            live=live,
        )

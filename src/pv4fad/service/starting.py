"""Start the service of a payment network from its folder: `pv4fad serve payment-network`.

It is a guest of the store: a station can run beside it, train and match.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import polars as pl

from pv4fad.deployment.card import Role, directory
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.hub.live import LiveQuestions
from pv4fad.deployment.job_notes import read_notes, require_refreshed
from pv4fad.deployment.jobs import RUNS
from pv4fad.deployment.party_figures import show_party
from pv4fad.deployment.party_folder import PartyFolder, PartySettings
from pv4fad.deployment.running import own_identity
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.lead.data import load_rows
from pv4fad.lead.desk_labels import DeskLabels, as_trained, used_labels
from pv4fad.lead.judging import Judging
from pv4fad.lead.prepare import read_training_record
from pv4fad.lead.score import checked_share
from pv4fad.run.folder import RunFolder
from pv4fad.service.access import Tokens, Use
from pv4fad.service.asking.engine import LiveEngine, Timing
from pv4fad.service.asking.stored import Following, StoredModel
from pv4fad.service.background import Background
from pv4fad.service.journal import Journal, journal_key
from pv4fad.service.known_payments import KnownPayments
from pv4fad.service.notices import LiveNotices
from pv4fad.service.parts import Parts
from pv4fad.service.watch import Expected, Watch
from pv4fad.store.sealing import RootKey
from pv4fad.store.store import Store


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


@dataclass(frozen=True)
class _Served:
    """The model that is served, and what else is read from the store once."""

    run_id: str
    judging: Judging = field(repr=False)
    rows: str
    """The fingerprint of the rows that it was trained on."""
    labels: DeskLabels | None = field(repr=False)
    journal_key: bytes = field(repr=False)

    @classmethod
    def stored(
        cls, folder: PartyFolder, settings: PartySettings, banks: Mapping[str, str], store: Store
    ) -> Self:
        run_id = read_notes(store).run_id
        if not run_id:
            raise StoreError(f"there is no model yet: pv4fad federation start {folder.path} train")
        require_refreshed(store, run_id)
        parameters = RunFolder(folder.path / RUNS / run_id).require_finished().parameters
        trained = read_training_record(store, run_id)
        share = checked_share(settings.alert_share, trained.settings)
        if share is None:
            raise ParameterError("the paper's model cannot be served: train with model evidence")
        if parameters.metered:
            raise ParameterError(
                "a metered model cannot be served: its answers pass the aggregator, in batches only"
            )
        judging = Judging.stored(store, parameters, banks, share)
        labels = used_labels(store, run_id)
        return cls(run_id, judging, trained.transactions, labels, journal_key(store))


@contextmanager
def network_parts(folder: PartyFolder, root_key: RootKey) -> Iterator[Parts]:
    """What the service of a payment network needs, with its journal and its store open."""
    require_role(folder, "payment-network")
    require_token(folder, "desk")
    settings, schema, cards = folder.settings(), folder.schema(), folder.complete_cards()
    if settings.carrier != "hub":
        raise ParameterError(f"{settings.carrier} carries no live questions: use the carrier hub")
    banks = directory(cards)
    tick_ms, timeout_ms = settings.live.times_ms(len(set(banks.values())))
    with ExitStack() as opened:
        store = opened.enter_context(folder.visit_store(root_key))
        served = _Served.stored(folder, settings, banks, store)
        judging, key = served.judging, served.journal_key
        correspondence = Correspondence(own_identity(folder, store), cards)
        journal = opened.enter_context(Journal.open(folder.path, key))

        def training() -> pl.DataFrame:
            path = folder.file(settings.data)
            rows = load_rows(schema, path, labels_required=True)
            found = as_trained(schema, served.labels, rows, served.rows)
            if found is None:
                raise DataError(
                    f"{path} does not hold the transactions that the run was trained on"
                )
            return found

        async def note(content: Mapping[str, Any]) -> None:
            await asyncio.wrap_future(journal.ask(content))

        known = opened.enter_context(
            closing(
                KnownPayments(
                    schema, journal, folder.path, key, training=training, fingerprint=served.rows
                )
            )
        )
        stored = StoredModel(store, served.run_id, judging, journal, folder.path)
        in_force = stored.in_force()
        live = LiveQuestions(folder, correspondence)
        timing = Timing(tick_ms / 1000, timeout_ms / 1000)
        watch = Watch(Expected.of(judging.own.histograms, judging.own.knowledge))
        background = Background(watch.figures.failed)
        model = stored.read()
        engine = LiveEngine(model, timing, ask=live.ask, note=note, background=background)
        show_party(watch.figures, folder)
        yield Parts(
            schema=schema,
            folder=folder.path,
            journal=journal,
            rows=known,
            engine=engine,
            watch=watch,
            directory={name: bank for name, bank in banks.items() if bank in model.tables.banks},
            run_id=served.run_id,
            banks=engine.status,
            sources=(engine.figures,),
            carrier=LiveNotices(live),
            background=background,
            running=(live, engine, Following(engine, stored, in_force, watch.figures.failed)),
        )

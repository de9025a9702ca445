"""What the payment network trains on and scores, as its party.toml says: files.

A job asks for it when it begins (`jobs.NetworkMember`); a Python process brings data of its own
(`pv4fad.connect`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from pv4fad.errors import ParameterError
from pv4fad.lead.data import load_rows
from pv4fad.lead.desk_labels import DeskLabels, read_desk_labels
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.score import How, score_files
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.lead.settings import TrainingSettings
from pv4fad.protocol.parameters import RunParameters
from pv4fad.run.meter import Meter
from pv4fad.run.scoring_record import ScoringRecord, read_record
from pv4fad.schema import Schema

PREDICTIONS = "predictions"


@dataclass(frozen=True)
class ToTrain:
    """Checked rows with their labels, and how to train on them."""

    rows: pl.DataFrame = field(repr=False)
    settings: TrainingSettings
    desk_labels: DeskLabels | None = field(repr=False, default=None)


class Work(Protocol):
    """What a job of the payment network is about."""

    def training(self) -> ToTrain: ...

    def score(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        number: int,
        meter: Meter,
    ) -> None:
        """Score with a model; `number`: of this scoring, the same if it goes on.

        `directory`: what rows call a bank → bank.
        """


@dataclass(frozen=True)
class FileWork:
    """The files of a party's folder; predictions are written there."""

    folder: Path
    schema: Schema
    transactions: Path
    new_transactions: Path | None
    settings: TrainingSettings | None
    how: How
    desk_labels: Path | None = None
    learned: Callable[[ScoringRecord], None] = lambda _: None
    """Called with what each scoring revealed."""

    def training(self) -> ToTrain:
        if self.settings is None:
            raise ParameterError("party.toml has no [training] section")
        rows = load_rows(self.schema, self.transactions, labels_required=True)
        path = self.desk_labels
        labels = None if path is None else read_desk_labels(self.schema, path)
        return ToTrain(rows, self.settings, labels)

    def score(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        number: int,
        meter: Meter,
    ) -> None:
        if self.new_transactions is None:
            raise ParameterError(
                "party.toml has no entry new-transactions: there is nothing to score"
            )
        out = self.folder / PREDICTIONS / f"{parameters.run_id}-{number}.csv"
        if out.exists():  # interrupted just after it was written
            JobNotes(federation.payment_network.store, parameters.run_id).end()
        else:
            out.parent.mkdir(mode=0o700, exist_ok=True)
            files = (self.transactions, self.new_transactions)
            score_files(federation, parameters, files, directory, out, how=self.how, meter=meter)
        record = read_record(out)
        if record is not None:
            self.learned(record)

"""Payments judged by the default model: what to ask about them, predictions, reasons.

Judging          the model, as it is applied
JudgedPayments   some payments: what the kinds of their accounts would mean, and predictions
EvidenceJudge    a batch of them, asked about in rounds (`lead.asking`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import local_reasons
from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import n_kinds_of, provided_kinds
from pv4fad.evidence.decisions import Decisions
from pv4fad.evidence.judgement import Judgement, complete
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.questions import Questions
from pv4fad.lead.evidence_model import OwnModel, stored_evidence
from pv4fad.lead.reasons import feature_text
from pv4fad.lead.rows import NewRows
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.run.predictions import HOLDERS_ANSWER, prediction_table
from pv4fad.run.scoring_record import Learned
from pv4fad.schema import Absent
from pv4fad.store.store import Store


@dataclass(frozen=True)
class Judging:
    """The default model, as payments are judged with it."""

    own: OwnModel = field(repr=False)
    model: EvidenceModel = field(repr=False)
    absent: Absent
    n_kinds: int
    directory: Mapping[str, str] = field(repr=False)
    """What rows call a bank → bank."""
    alert_share: float
    broadcast: bool = True
    """Whether accounts of unknown banks can be asked about."""

    @classmethod
    def stored(
        cls,
        store: Store,
        parameters: RunParameters,
        directory: Mapping[str, str],
        alert_share: float,
    ) -> Judging:
        """The model of a run, from the payment network's store."""
        if parameters.mode != "counts" or parameters.absent is None:
            raise ParameterError("the run has the paper's model, and no noisy counts")
        own = OwnModel.stored(store, parameters.run_id)
        model = stored_evidence(own, parameters, store)
        n_kinds = n_kinds_of(parameters.sizes.n_atoms, parameters.absent)
        broadcast = not parameters.metered
        return cls(own, model, parameters.absent, n_kinds, directory, alert_share, broadcast)

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        """What banks are asked about: one for each kind."""
        provided = provided_kinds(self.absent, self.n_kinds)
        return tuple(
            AskedSet(
                tuple(provided.index(kind) for kind in kinds if kind in provided),
                absent=self.n_kinds + 1 in kinds,
            )
            for kinds in self.model.kinds
        )


class JudgedPayments:
    """Some payments, and what the kinds of their accounts would mean for them."""

    def __init__(self, judging: Judging, payments: NewRows) -> None:
        self.payments = payments
        self._own = judging.own
        rows = payments.evidence_rows(
            judging.own.local, judging.directory, broadcast=judging.broadcast
        )
        self._hit = np.asarray(rows.hit.any(axis=1))
        self.judgement = Judgement(judging.model, rows, judging.alert_share)

    def table(self, found: Decisions, rows: NDArray[np.int64] | None = None) -> pl.DataFrame:
        """Predictions; of some payments only, if `rows` says which."""
        some = np.arange(len(self.payments)) if rows is None else rows
        alert, by_bank = found.alert[some], found.bank_alert[some]
        return prediction_table(
            self.payments.ids[some],
            score=found.score[some],
            alert=alert,
            level=found.level[some],
            local_score=found.own_score[some],
            reasons=self._reasons(some, alert, by_bank),
        )

    def _reasons(
        self, rows: NDArray[np.int64], alert: NDArray[np.bool_], by_bank: NDArray[np.bool_]
    ) -> list[str | None]:
        """Of alerts only."""
        texts: list[str | None] = [None] * len(alert)
        alerts, payments = np.flatnonzero(alert), self.payments
        if not len(alerts):
            return texts
        features = payments.features.values[rows[alerts]]
        own = local_reasons(self._own.local, features, self._own.usual)
        schema = payments.schema
        answer = schema.words(HOLDERS_ANSWER)
        confirmed = schema.words("{a_record} with a confirmed anomaly")
        for row, reasons in zip(alerts, own, strict=True):
            parts = [answer] * bool(by_bank[row]) + [confirmed] * bool(self._hit[rows[row]])
            parts += [feature_text(schema, *reason) for reason in reasons]
            texts[row] = "; ".join(dict.fromkeys(parts))  # two features may say the same
        return texts


class EvidenceJudge:
    """The default model: a batch, judged in rounds of questions."""

    def __init__(self, judging: Judging, payments: NewRows) -> None:
        self._judging, self._payments = judging, payments
        self._judged = JudgedPayments(judging, payments)

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        return self._judging.sets

    def begin(self, known: NDArray[np.int8]) -> None:
        self._questions = Questions(self._judged.judgement, complete(known))

    def ask(self, number: int) -> NDArray[np.int64]:
        return self._questions.ask(number)

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        self._questions.take(number, accounts, bits)

    def table(self) -> pl.DataFrame:
        return self._judged.table(self._questions.outcome())

    def learned(self) -> Learned:
        found = self._questions.outcome()
        return Learned(
            rows=len(self._payments),
            rows_asked=found.n_payments_asked,
            records=len(self._payments.keys),
            records_asked=found.n_accounts_asked,
            alerts=found.n_alerts,
            holder_alerts=found.n_bank_alerts,
        )

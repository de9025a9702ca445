"""Decisions from the payment network's own data alone: what it does before any match, or without
banks.

An account that a bank could have decided about is taken as ordinary, and the decision says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import n_kinds_of
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.questions import UNKNOWN
from pv4fad.lead.evidence_model import EvidenceJudge, OwnModel, stored_evidence
from pv4fad.lead.rows import NewRows
from pv4fad.protocol.parameters import RunParameters
from pv4fad.schema import Absent
from pv4fad.service.decisions import Decided, How
from pv4fad.store.store import Store


@dataclass(frozen=True)
class LocalEngine:
    """Judges payments without asking."""

    own: OwnModel = field(repr=False)
    model: EvidenceModel = field(repr=False)
    absent: Absent
    n_kinds: int
    directory: Mapping[str, str]
    """What payments call a bank → bank."""
    alert_share: float

    @classmethod
    def stored(
        cls,
        store: Store,
        parameters: RunParameters,
        directory: Mapping[str, str],
        alert_share: float,
    ) -> LocalEngine:
        """The model of a run, from the payment network's store."""
        if parameters.mode != "counts" or parameters.absent is None:
            raise ParameterError("the paper's model cannot be served: train with --model evidence")
        own = OwnModel.stored(store, parameters.run_id)
        model = stored_evidence(own, parameters, store)
        n_kinds = n_kinds_of(parameters.sizes.n_atoms, parameters.absent)
        return cls(own, model, parameters.absent, n_kinds, directory, alert_share)

    async def decide(self, payments: NewRows) -> AsyncIterator[Decided]:
        yield await asyncio.to_thread(self.judge, payments)

    def judge(self, payments: NewRows) -> Decided:
        """All payments of a batch."""
        judge = EvidenceJudge(
            self.own,
            self.model,
            self.absent,
            self.n_kinds,
            payments,
            self.directory,
            self.alert_share,
        )
        judge.begin(np.full((len(payments.keys), len(judge.sets)), UNKNOWN, np.int8))
        for number in range(len(judge.sets)):
            accounts = judge.ask(number)
            judge.take(number, accounts, np.zeros(len(accounts), np.int64))  # as if ordinary
        how: list[How] = [
            "account not yet matched" if wanted else "local only" for wanted in judge.asked()
        ]
        return Decided(np.arange(len(payments)), judge.table(), tuple(how))

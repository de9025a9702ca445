"""What the payment network keeps of its own for the default model; no bank's data is in it.

The local model, and its knowledge of its own payments (`evidence.knowledge`).  With the noisy
counts of the run it becomes the evidence that scoring goes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel
from pv4fad.errors import ParameterError
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.noise import CountNoise
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.run_records import RunRecords
from pv4fad.store.store import Store

_LOCAL_MODEL = "local model"
_USUAL = "usual values"
_ORDER = "order of kinds"
_KNOWLEDGE = "own knowledge"


@dataclass(frozen=True)
class OwnModel:
    """Fitted to the payment network's own training data."""

    local: LocalModel = field(repr=False)
    usual: NDArray[np.float32] = field(repr=False)
    """The usual value of each feature of the local model."""
    knowledge: Knowledge = field(repr=False)

    def store(self, records: RunRecords) -> None:
        """Into the payment network's own store."""
        records.put(_LOCAL_MODEL, self.local.to_bytes())
        records.put_arrays(_USUAL, usual=self.usual)
        records.put_arrays(_KNOWLEDGE, **self.knowledge.to_arrays())

    @classmethod
    def stored(cls, store: Store, run_id: str) -> OwnModel:
        with store.transaction() as tx:
            records = RunRecords(tx, run_id)
            return cls(
                LocalModel.from_bytes(records.get(_LOCAL_MODEL)),
                records.get_arrays(_USUAL)["usual"],
                Knowledge.from_arrays(records.get_arrays(_KNOWLEDGE)),
            )

    def evidence(
        self,
        parameters: RunParameters,
        noisy_counts: NDArray[np.int64],
        order: Sequence[int] | None = None,
    ) -> EvidenceModel:
        """What the noisy counts of the run are worth.  `order`: as of `EvidenceModel.of`."""
        if parameters.counted is None or parameters.absent is None:
            raise ParameterError("the run has labels of leaves, and no counts of classes")
        return EvidenceModel.of(
            self.knowledge,
            noisy_counts,
            noise_of(parameters),
            sets=parameters.counted,
            absent=parameters.absent,
            order=order,
        )


def noise_of(parameters: RunParameters) -> CountNoise:
    """The noise of a run's counts, from its public parameters."""
    n_banks = len(parameters.banks)
    draws = n_banks if parameters.noise == "per-bank" else n_banks / parameters.honest_banks
    return CountNoise.of(parameters.exact_epsilon, parameters.sensitivity, draws)


def stored_evidence(own: OwnModel, parameters: RunParameters, store: Store) -> EvidenceModel:
    """The evidence of a trained run.

    The order of the kinds is settled once per run: answers are kept by it, and the last digits of
    an average may differ on another machine.
    """
    with store.transaction() as tx:
        records = RunRecords(tx, parameters.run_id)
        counts = records.get_arrays("noisy counts")["counts"]
        model = own.evidence(parameters, counts, records.find_json(_ORDER, None))
        records.put_json(_ORDER, model.order)
    return model

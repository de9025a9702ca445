"""What the payment network keeps of its own for the default model; no bank's data is in it.

The local model, and its knowledge of its own payments (`evidence.knowledge`).  With the noisy
counts of the run it becomes the evidence that scoring goes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel
from pv4fad.errors import ParameterError
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.noise import CountNoise
from pv4fad.protocol.count.state import ReleasedCounts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.store.records import Record, Records, stored
from pv4fad.store.store import Store


@dataclass(frozen=True)
class StoredModel(Record):
    """The own model in the payment network's store; `LocalModel`, and the arrays of `Knowledge`."""

    local: bytes = field(repr=False)
    usual: NDArray[np.float32] = field(repr=False)
    scale: NDArray[np.float64] = field(repr=False)
    history: NDArray[np.float64] = field(repr=False)
    rows: NDArray[np.float64] = field(repr=False)
    kept: NDArray[np.int64] = field(repr=False)
    hazard: NDArray[np.float64] = field(repr=False)
    is_first: NDArray[np.bool_] = field(repr=False)
    stratum: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.float64] = field(repr=False)

    def knowledge(self) -> Knowledge:
        arrays = {one.name: getattr(self, one.name) for one in fields(self)[2:]}
        return Knowledge.from_arrays(arrays)


@dataclass(frozen=True)
class OrderOfKinds(Record):
    """As of `EvidenceModel.of`; settled once per run."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class OwnModel:
    """Fitted to the payment network's own training data."""

    local: LocalModel = field(repr=False)
    usual: NDArray[np.float32] = field(repr=False)
    """The usual value of each feature of the local model."""
    knowledge: Knowledge = field(repr=False)

    def store(self, records: Records) -> None:
        """Into the payment network's own store."""
        arrays = self.knowledge.to_arrays()
        records.put(StoredModel(self.local.to_bytes(), self.usual, **arrays))

    @classmethod
    def stored(cls, store: Store, run_id: str) -> OwnModel:
        kept = stored(store, run_id, StoredModel)
        return cls(LocalModel.from_bytes(kept.local), kept.usual, kept.knowledge())

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
        records = Records(tx, parameters.run_id)
        counts, settled = records.get(ReleasedCounts).counts, records.find(OrderOfKinds)
        model = own.evidence(parameters, counts, None if settled is None else settled.order)
        records.put(OrderOfKinds(tuple(model.order)))
    return model

"""Work of the default model: every account counts once in one of the cells, classes are uniform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.cells import N_CELLS, CountedAccounts
from pv4fad.evidence.classes import CLASSES, MILD, SEVERE, counted_sets
from pv4fad.evidence.trusted import trusted_bits, trusted_counts
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad_bench.batches import DecisionBatch
from pv4fad_bench.workload import Workload

KINDS = (AskedSet((SEVERE,), False), AskedSet((MILD,), False), AskedSet((), True))
"""Severe, mild, absent: as many as a model has at most."""


@dataclass(frozen=True)
class EvidenceWorkload(Workload):
    """Sets fine, absent is a class."""

    n_atoms: ClassVar[int] = len(CLASSES)
    n_trees: ClassVar[int] = 1

    @cached_property
    def counted(self) -> CountedAccounts:
        """All accounts, over all cells."""
        keys = np.arange(self.pns_accounts)
        cells = np.random.default_rng([self.seed, 2]).integers(N_CELLS, size=self.pns_accounts)
        return CountedAccounts(cells, keys, keys)

    @cached_property
    def training_input(self) -> TrainingInput:
        sets = (counted_sets("fine", "class"),) * N_CELLS
        return TrainingInput(cell_counts(self.counted), sets, self.tables)

    def parameters(self) -> RunParameters:
        return run_parameters(
            self.training_input,
            dict.fromkeys(self.banks, self.bank_accounts),
            bound=1,
            epsilon="none",
            noise="none",
            honest_banks=1,
            mode="counts",
            counted="fine",
            absent="class",
        )

    def true_counts(self) -> NDArray[np.int64]:
        return trusted_counts(self.counted, self.atoms[:, 0], counted_sets("fine", "class"))

    def batch(self, n: int, per_account: int) -> DecisionBatch:
        """A payment alerts for some of the kinds; without any it depends on no bank."""
        account, atom_of = self.paying_accounts(n, per_account), self.atoms[:, 0]
        alerts_if = np.random.default_rng([self.seed, 6]).random((n, len(KINDS))) < 0.5
        of_kind = [trusted_bits(atom_of, kind.atoms, absent=kind.absent) for kind in KINDS]
        truth = (alerts_if & (np.stack(of_kind, axis=1)[account] == 1)).any(axis=1)
        return DecisionBatch(self.keys, account, KINDS, alerts_if, atom_of, truth)

    def n_layers(self, per_account: int) -> int:
        return len(KINDS)

"""Work of the default model: every account counts once in one of the cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.cells import CountedAccounts, n_cells
from pv4fad.evidence.classes import ORDINARY, counted_sets
from pv4fad.evidence.trusted import trusted_bits, trusted_counts
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.schema import Absent
from pv4fad_bench.batches import DecisionBatch
from pv4fad_bench.workload import CLASSES, Workload


@dataclass(frozen=True)
class EvidenceWorkload(Workload):
    """Sets are fine."""

    n_trees: ClassVar[int] = 1
    n_classes: int = len(CLASSES)
    absent: Absent = "class"
    metered: bool = False

    @cached_property
    def kinds(self) -> tuple[AskedSet, ...]:
        """As many as a model has at most: severe, mild, absent."""
        atom_of = self.schema.atom_of_class(self.absent)
        present = tuple(AskedSet((atom,), False) for atom in reversed(atom_of[ORDINARY + 1 :]))
        return (*present, AskedSet((), True)) if self.absent == "class" else present

    @cached_property
    def counted(self) -> CountedAccounts:
        """All accounts, over all cells."""
        keys, cells = np.arange(self.pns_accounts), n_cells(self.schema.n_sides)
        cell = np.random.default_rng([self.seed, 2]).integers(cells, size=self.pns_accounts)
        return CountedAccounts(cell, keys, keys, cells)

    @property
    def _sets(self) -> tuple[tuple[int, ...], ...]:
        return counted_sets("fine", self.absent, len(self.schema.record.kind_names))

    @cached_property
    def training_input(self) -> TrainingInput:
        sets = (self._sets,) * self.counted.n_cells
        return TrainingInput(cell_counts(self.counted), sets, self.tables)

    def parameters(self) -> RunParameters:
        return run_parameters(
            self.training_input,
            dict.fromkeys(self.banks, self.bank_accounts),
            self.schema,
            bound=1,
            epsilon="none",
            noise="none",
            honest_banks=1,
            mode="counts",
            counted="fine",
            absent=self.absent,
            metered=self.metered,
        )

    def true_counts(self) -> NDArray[np.int64]:
        return trusted_counts(self.counted, self.atoms, self._sets)

    def batch(self, n: int, per_account: int) -> DecisionBatch:
        """A payment alerts for some of the kinds; without any it depends on no bank."""
        account, atom_of, kinds = self.paying_accounts(n, per_account), self.atoms, self.kinds
        alerts_if = np.random.default_rng([self.seed, 6]).random((n, len(kinds))) < 0.5
        of_kind = [trusted_bits(atom_of, kind.atoms, absent=kind.absent) for kind in kinds]
        truth = (alerts_if & (np.stack(of_kind, axis=1)[account] == 1)).any(axis=1)
        return DecisionBatch(self.keys, account, kinds, alerts_if, atom_of, truth)

    def n_layers(self, per_account: int) -> int:
        return len(self.kinds)

"""`pv4fad bench network`: arithmetic for a network larger than any machine here, from unit costs.

Two jobs are measured, and checked as always: one small bank, and one whose table fills blocks.
What a network with thousands of institutions would need follows from them and from public sizes.
Institutions are as unequal as ranks are: the k-th has 1/k of the accounts of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import N_FUNCTIONS
from pv4fad.hashing.table_size import TableLayout
from pv4fad.hashing.tags import log2_false_match_bound
from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.layouts import cheapest_layout, table_seconds
from pv4fad.protocol.parameters import (
    LOG2_DISTANCE,
    LOG2_FALSE_MATCH,
    RunParameters,
    most_in_a_bin,
)
from pv4fad.protocol.tables import padded
from pv4fad.workers import Workers
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import Progress
from pv4fad_bench.whole import WholeJob, run_whole_job

_SMALL, _FULL = 5_000, 50_000  # accounts on each side
_PER_ACCOUNT = 3
_SECONDS = 12.0


@dataclass(frozen=True)
class Measured:
    """A job with one bank."""

    workload: EvidenceWorkload
    parameters: RunParameters
    job: WholeJob

    @property
    def _layout(self) -> TableLayout:
        return self.parameters.tables[0].layout

    @property
    def cpu_per_estimate(self) -> float:
        """CPU seconds of training against those that choose the layout."""
        size = padded(self.workload.bank_accounts)
        return self.job.train_cpu_s / table_seconds(self._layout, size, self.n_atoms)

    @property
    def n_atoms(self) -> int:
        return self.parameters.sizes.n_atoms

    @property
    def train_bytes_per_block(self) -> float:
        return self._bytes(score=False) / self._layout.n_blocks

    @property
    def score_bytes_per_block(self) -> float:
        return self._bytes(score=True) / self._layout.n_blocks

    @property
    def score_cpu_per_block(self) -> float:
        return self.job.score_cpu_s / self._layout.n_blocks

    def _bytes(self, *, score: bool) -> int:
        return sum(one.n_bytes for one in self.job.traffic if score == ("score" in one.kind))


@dataclass(frozen=True)
class Network:
    """What is asked for."""

    institutions: int
    accounts: int
    """That the payment network sees, at all institutions together."""
    bank_share: float
    """How many accounts an institution has for each of its own that the payment network sees."""

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Accounts that the payment network sees at each institution, the largest first."""
        shares = 1 / np.arange(1, self.institutions + 1)
        rounded: NDArray[np.float64] = np.round(self.accounts * shares / shares.sum())
        return np.maximum(1, rounded).astype(np.int64)


@dataclass(frozen=True)
class Table:
    """The table of one institution, and how many have such a one."""

    layout: TableLayout
    bank_accounts: int
    number: int


@dataclass(frozen=True)
class Limit:
    """A bound of one run: how large a number may be, and how large it would be."""

    what: str
    allowed: str
    would_be: str
    holds: bool


@dataclass(frozen=True)
class Need:
    """What training, one scoring, and the bounds of a run come to."""

    network: Network
    small: Measured
    full: Measured

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Sizes are padded, so that few different ones are left."""
        n_atoms = self.full.n_atoms
        declared, numbers = np.unique(
            [padded(int(size)) for size in self.network.sizes], return_counts=True
        )
        made = []
        for size, number in zip(declared.tolist(), numbers.tolist(), strict=True):
            bank = padded(round(size * self.network.bank_share))
            layout = cheapest_layout(
                size, bank, n_trees=1, n_atoms=n_atoms, n_tables=self.network.institutions
            )
            made.append(Table(layout, bank, number))
        return tuple(made)

    def train_cpu_s(self, table: Table) -> float:
        of = self._like(table)
        return of.cpu_per_estimate * table_seconds(table.layout, table.bank_accounts, of.n_atoms)

    def train_bytes(self, table: Table) -> float:
        return self._like(table).train_bytes_per_block * table.layout.n_blocks

    def score_cpu_s(self, table: Table) -> float:
        return self._like(table).score_cpu_per_block * table.layout.n_blocks

    def score_bytes(self, table: Table) -> float:
        return self._like(table).score_bytes_per_block * table.layout.n_blocks

    def _like(self, table: Table) -> Measured:
        """The job whose table is of the same kind: a strip of a ciphertext, or full blocks."""
        full_block = self.full.parameters.tables[0].layout.block_size
        return self.small if table.layout.block_size < full_block else self.full

    def limits(self) -> tuple[Limit, ...]:
        """The bounds that a single run has."""
        declared = sum(one.layout.n_accounts_declared * one.number for one in self.tables)
        blocks = sum(one.layout.n_blocks * one.number for one in self.tables)
        bins = sum(one.layout.n_bins * one.number for one in self.tables)
        pairs = sum(
            one.number
            * (
                N_FUNCTIONS * one.bank_accounts
                + one.layout.n_blocks * most_in_a_bin(one.bank_accounts, one.layout.n_bins_used)
            )
            for one in self.tables
        )
        false_match = log2_false_match_bound(pairs, bins, self.full.n_atoms)
        bounds, n_atoms = self.full.parameters.bounds, self.full.n_atoms
        per_block = {"values": 2, "distances": 2, "indicators": n_atoms}
        distance = log2(
            sum(blocks * n * 2.0 ** -bounds[name].distance_bits for name, n in per_block.items())
        )
        largest = PLAIN_MODULI[-1]
        return (
            Limit(
                "accounts in one run, so that every count fits the plaintext modulus",
                f"{largest:,}",
                f"{declared:,}",
                declared < largest,
            ),
            Limit(
                "log2 of the chance of a false match",
                f"{LOG2_FALSE_MATCH:.0f}",
                f"{false_match:.1f}",
                false_match <= LOG2_FALSE_MATCH,
            ),
            Limit(
                "log2 distance from uniform of all that is sanitised in the match",
                f"{LOG2_DISTANCE:.0f}",
                f"{distance:.1f}",
                distance <= LOG2_DISTANCE,
            ),
        )


def bench_network(network: Network, workers: Workers, progress: Progress) -> Need:
    """Measure the two jobs, and multiply."""
    jobs = [EvidenceWorkload(size, size) for size in (_SMALL, _FULL)]
    progress.begin(_SECONDS, len(jobs))
    measured = []
    for workload in jobs:
        job = run_whole_job(
            workload,
            n_transactions=_PER_ACCOUNT * workload.pns_accounts,
            per_account=_PER_ACCOUNT,
            workers=workers,
            advance=lambda: None,
        )
        measured.append(Measured(workload, workload.parameters(), job))
        progress.advance()
    return Need(network, *measured)

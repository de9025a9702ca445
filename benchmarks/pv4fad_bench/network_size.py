"""`pv4fad bench network`: arithmetic for a network larger than any machine here, from unit costs.

Measured, and checked as always: two jobs, one small bank and one whose table fills blocks; and what
a payment, a live query and a fragment at the hub take (`network_units`).  What a network with
thousands of institutions would need follows from them and from public sizes.  Institutions are as
unequal as ranks are: the k-th has 1/k of the accounts of the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.table_size import BLOCK_SIZE, TableLayout
from pv4fad.he.polynomial import n_powers
from pv4fad.he.strips import Strips
from pv4fad.protocol.layouts import cheapest_layout, table_seconds
from pv4fad.protocol.live.plan import default_tick_ms
from pv4fad.protocol.match.messages import EncryptedTable
from pv4fad.protocol.order import rows_of
from pv4fad.protocol.parameters import RunParameters, most_in_a_bin
from pv4fad.protocol.tables import padded
from pv4fad.workers import Workers
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import Progress
from pv4fad_bench.network_units import (
    LiveUnits,
    PaymentUnits,
    hub_fragment_cpu_s,
    identity_bytes,
    live_units,
    payment_units,
)
from pv4fad_bench.whole import WholeJob, run_whole_job

_SMALL, _FULL = 5_000, 50_000  # accounts on each side
_PAYMENTS = 300_000
_HUB_SIZES = 1, 2_000  # the hub looks through all parties for each fragment
_PER_ACCOUNT = 3
_SECONDS = 20.0
_STEPS = 5
_DAY_S = 86_400
# Above it the bound on failed placements takes seconds, and asks for 1.2 bins per account.
_PLANNED_UP_TO, _BINS_PER_ACCOUNT = 50_000, 1.2
_LEAST_DEGREE = 2


@dataclass(frozen=True)
class Measured:
    """A job with one bank."""

    workload: EvidenceWorkload
    parameters: RunParameters
    job: WholeJob

    @property
    def _layout(self) -> TableLayout:
        return self.parameters.tables[0].layout

    def train_cpu_s(self, layout: TableLayout, bank_accounts: int) -> float:
        """Of such a table."""
        return self._by_estimate(self.job.train_cpu_s, layout, bank_accounts)

    def match_cpu_s(self, layout: TableLayout, bank_accounts: int) -> float:
        """The same without keys and counts, which a match of new accounts does not need."""
        return self._by_estimate(self.job.phases["match"].cpu_s, layout, bank_accounts)

    @property
    def n_atoms(self) -> int:
        return self.parameters.sizes.n_atoms

    def train_bytes(self, layout: TableLayout, bank_accounts: int) -> float:
        """Of such a table, and of the bank's keys."""
        keys = self._kinds_in("propose")
        others = self._kinds_of_training() - keys
        return self._bytes(keys) + self._of_powers(others, layout, bank_accounts)

    def match_bytes(self, layout: TableLayout, bank_accounts: int) -> float:
        """The same without keys and counts."""
        return self._of_powers(self._kinds_in("match"), layout, bank_accounts)

    @property
    def score_bytes_per_block(self) -> float:
        kinds = {one.kind for one in self.job.traffic} - self._kinds_of_training()
        return self._bytes(kinds) / self._layout.n_blocks

    @property
    def score_cpu_per_block(self) -> float:
        return self.job.score_cpu_s / self._layout.n_blocks

    def _kinds_in(self, phase: str) -> set[str]:
        rows = [row for row in rows_of(self.parameters) if row.phase == phase]
        return {kind.kind for row in rows for kind in (row.message, row.answer) if kind is not None}

    def _kinds_of_training(self) -> set[str]:
        return {one.kind for one in self.job.traffic if "score" not in one.kind}

    def _by_estimate(self, cpu_s: float, layout: TableLayout, bank_accounts: int) -> float:
        """In proportion to the seconds that choose the layout."""
        own = table_seconds(self._layout, self._bank_accounts, self.n_atoms)
        return cpu_s * table_seconds(layout, bank_accounts, self.n_atoms) / own

    def _of_powers(self, kinds: Collection[str], layout: TableLayout, bank_accounts: int) -> float:
        """Powers as many as the table's own bins need, all else by the block as measured."""
        more = n_powers_of(layout, bank_accounts) / n_powers_of(self._layout, self._bank_accounts)
        measured = self._bytes(kinds) + (more - 1) * self._bytes({EncryptedTable.kind})
        return measured * layout.n_blocks / self._layout.n_blocks

    def _bytes(self, kinds: Collection[str]) -> int:
        return sum(one.n_bytes for one in self.job.traffic if one.kind in kinds)

    @property
    def _bank_accounts(self) -> int:
        return padded(self.workload.bank_accounts)


@dataclass(frozen=True)
class Network:
    """What is asked for."""

    institutions: int
    accounts: int
    """That the payment network sees, at all institutions together."""
    bank_share: float
    """How many accounts an institution has for each of its own that the payment network sees."""
    payments: int
    """A day."""
    days: int
    """Of payments that are trained on, and that the live service knows."""

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Accounts that the payment network sees at each institution, the largest first."""
        shares = 1 / np.arange(1, self.institutions + 1)
        rounded: NDArray[np.float64] = np.round(self.accounts * shares / shares.sum())
        return np.maximum(1, rounded).astype(np.int64)

    @property
    def known_payments(self) -> int:
        return self.payments * self.days

    def with_institutions(self, n: int) -> Self:
        """So many, with accounts and payments in proportion."""
        share = n / self.institutions
        return replace(
            self,
            institutions=n,
            accounts=max(1, round(self.accounts * share)),
            payments=max(1, round(self.payments * share)),
        )


@dataclass(frozen=True)
class Table:
    """The table of one institution, and how many have such a one."""

    layout: TableLayout
    bank_accounts: int
    number: int


@dataclass(frozen=True)
class Units:
    """What was measured."""

    small: Measured
    full: Measured
    payment: PaymentUnits
    live: LiveUnits
    fragment_cpu_s: Callable[[int], float]
    """At the hub, by institutions."""
    identity_bytes: int
    n_tables: int
    """That layouts are planned for."""

    @property
    def checks(self) -> bool:
        """Whether all results were right."""
        return all(all(one.job.checks.values()) for one in (self.small, self.full))


@dataclass(frozen=True)
class Need:
    """What a network comes to."""

    network: Network
    units: Units

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Sizes are padded, so that few different ones are left."""
        return self._tables(padded)

    @cached_property
    def further_tables(self) -> tuple[Table, ...]:
        """Of the few accounts at every institution that are new since the training.

        A batch with any of them, at whichever institution, matches with all: which of them have
        new accounts is not to be seen.
        """
        return self._tables(lambda _: padded(0))

    def _tables(self, declared: Callable[[int], int]) -> tuple[Table, ...]:
        sizes, numbers = np.unique(
            [padded(int(size)) for size in self.network.sizes], return_counts=True
        )
        made = []
        for size, number in zip(sizes.tolist(), numbers.tolist(), strict=True):
            bank = padded(round(size * self.network.bank_share))
            made.append(Table(_layout(declared(size), bank, self.units), bank, number))
        return tuple(made)

    # Of a table.

    def train_cpu_s(self, table: Table) -> float:
        return self._like(table).train_cpu_s(table.layout, table.bank_accounts)

    def train_bytes(self, table: Table) -> float:
        return self._like(table).train_bytes(table.layout, table.bank_accounts)

    def match_cpu_s(self, table: Table) -> float:
        return self._like(table).match_cpu_s(table.layout, table.bank_accounts)

    def match_bytes(self, table: Table) -> float:
        return self._like(table).match_bytes(table.layout, table.bank_accounts)

    def score_cpu_s(self, table: Table) -> float:
        return self._like(table).score_cpu_per_block * table.layout.n_blocks

    def score_bytes(self, table: Table) -> float:
        return self._like(table).score_bytes_per_block * table.layout.n_blocks

    def _like(self, table: Table) -> Measured:
        """The job whose table is of the same kind: a strip of a ciphertext, or full blocks."""
        full, small = self.units.full, self.units.small
        full_block = full.parameters.tables[0].layout.block_size
        return small if table.layout.block_size < full_block else full

    # Of all.

    def total(self, of_table: Callable[[Table], float]) -> float:
        return sum(one.number * of_table(one) for one in self.tables)

    def total_further(self, of_table: Callable[[Table], float]) -> float:
        """Of a match of few new accounts."""
        return sum(one.number * of_table(one) for one in self.further_tables)

    @property
    def public_bytes(self) -> int:
        """That every institution is sent about all of them: tables and keys."""
        of_table = len(self.units.full.parameters.tables[0].model_dump_json())
        return self.network.institutions * (of_table + self.units.identity_bytes)

    @property
    def prepare_cpu_s(self) -> float:
        """Features and local model of all payments of training."""
        unit = self.units.payment
        return self.network.known_payments * (unit.features_cpu_s + unit.model_cpu_s)

    @property
    def prepare_bytes(self) -> int:
        """In memory of one process."""
        return self.network.known_payments * self.units.payment.training_bytes

    @property
    def judge_cores(self) -> float:
        """Of the live service, for as many payments a second as a day has on average."""
        return self.network.payments / _DAY_S * self.units.payment.judge_cpu_s

    @property
    def known_bytes(self) -> int:
        """In memory of the live service: payments."""
        return self.network.known_payments * self.units.payment.known_bytes

    @property
    def live_share_bytes(self) -> float:
        """In memory of the live service: shares of accounts."""
        degree = self.units.full.parameters.share_ring.degree
        blocks = self.total(lambda one: one.layout.n_blocks * ceil(one.layout.block_size / degree))
        return blocks * self.units.live.block_bytes

    @property
    def journal_bytes(self) -> int:
        """A day."""
        return self.network.payments * self.units.payment.journal_bytes

    @property
    def query_cores(self) -> float:
        """Of the live service, to send every institution a query each second."""
        return self.network.institutions * self.units.live.query_cpu_s

    @property
    def query_bytes(self) -> int:
        """With one query a second."""
        return self.network.institutions * self.units.live.n_bytes

    @property
    def tick_ms(self) -> int:
        return default_tick_ms(self.network.institutions)


def n_powers_of(layout: TableLayout, bank_accounts: int) -> int:
    """How many ciphertexts hold the powers of a block."""
    degree = max(_LEAST_DEGREE, most_in_a_bin(bank_accounts, layout.n_bins_used))
    return n_powers(degree, Strips(layout.block_size, BLOCK_SIZE).n)


def _layout(size: int, bank: int, units: Units) -> TableLayout:
    """As a run has it; of a large table about so."""
    n_atoms = units.full.n_atoms
    if size <= _PLANNED_UP_TO:
        return cheapest_layout(size, bank, n_trees=1, n_atoms=n_atoms, n_tables=units.n_tables)

    def full(n_blocks: int) -> TableLayout:
        return TableLayout(size, 1, 1, n_blocks * BLOCK_SIZE, n_blocks)

    def rises(n_blocks: int) -> bool:
        now, more = (table_seconds(full(n), bank, n_atoms) for n in (n_blocks, n_blocks + 1))
        return now <= more

    least = ceil(_BINS_PER_ACCOUNT * size / BLOCK_SIZE)
    choices = range(least, 2 * padded(bank) // BLOCK_SIZE + 2 * least)
    return full(choices[bisect_left(choices, True, key=rises)])


def bench_network(network: Network, workers: Workers, progress: Progress) -> Need:
    """Measure, and multiply."""
    jobs = [EvidenceWorkload(size, size) for size in (_SMALL, _FULL)]
    progress.begin(_SECONDS, _STEPS)
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
    payment = payment_units(_PAYMENTS)
    progress.advance()
    live = live_units(jobs[0].kinds, measured[0].n_atoms)
    progress.advance()
    few, many = (hub_fragment_cpu_s(n) for n in _HUB_SIZES)
    progress.advance()

    def fragment_cpu_s(institutions: int) -> float:
        least, most = _HUB_SIZES
        return few + (many - few) * (institutions - least) / (most - least)

    small, full = measured
    tables = network.institutions
    return Need(
        network, Units(small, full, payment, live, fragment_cpu_s, identity_bytes(), tables)
    )

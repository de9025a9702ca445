"""How a batch is cut into layers and messages: public sizes only (protocol.md §6, §11.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pv4fad.he.ring import Ring
from pv4fad.protocol.parameters import Mode, RunParameters, TablePlan

Route = Literal["direct", "summed", "metered"]
"""How an answer gets to the payment network: from the bank, or of a broadcast table by the
aggregator, which adds up those of all banks, or by the aggregator, which counts the ones."""
Place = tuple[str, int]
"""A table and the number of a message about it."""

_MESSAGE_BYTES = 100 * 2**20  # of ciphertexts in one message, about


@dataclass(frozen=True)
class ScoringPlan:
    """The shapes of all scoring messages about the tables of one match."""

    parameters: RunParameters

    @property
    def queries_per_slot(self) -> int:
        """Ciphertexts per block and layer: y of every distinct set and Z, or Z alone."""
        sealed = self.parameters.mode == "sealed"
        return 1 + (self.parameters.sizes.n_distinct_sets if sealed else 0)

    @property
    def flood_circuit(self) -> str:
        """The circuit whose flood sanitises queries."""
        return "sealed" if self.parameters.mode == "sealed" else "linear"

    def n_share_blocks(self, plan: TablePlan) -> int:
        """Blocks of the share ring in a table."""
        return plan.layout.n_blocks * self.parameters.share_blocks_per_block(plan)

    def n_slots(self, plan: TablePlan) -> int:
        """Of these blocks: bin b is slot b, and a small table leaves some over."""
        return self.n_share_blocks(plan) * self.parameters.share_ring.degree

    def layer_chunks(self, plan: TablePlan, n_layers: int) -> list[range]:
        """The layers that each message about a table carries."""
        size = Ring.of(self.parameters.share_ring).ciphertext_bytes(1)
        per_layer = self.n_share_blocks(plan) * self.queries_per_slot * size
        step = max(1, _MESSAGE_BYTES // per_layer)
        return [range(i, min(i + step, n_layers)) for i in range(0, n_layers, step)]

    def leaf_chunks(self) -> list[range]:
        """The leaves whose encrypted shares each message carries: whole groups."""
        ring = Ring.of(self.parameters.share_ring)
        sizes = self.parameters.sizes
        per_group = (sizes.n_sets + 1) * ring.ciphertext_bytes(ring.parameters.n_data_primes)
        step = max(1, _MESSAGE_BYTES // per_group) * (sizes.n_sets + 1)
        return [range(i, min(i + step, sizes.n_leaves)) for i in range(0, sizes.n_leaves, step)]


@dataclass(frozen=True)
class Batch:
    """What is public about a batch: tables, layers, and what a sealed model still lacks."""

    mode: Mode
    banks: tuple[str, ...]
    tables: tuple[tuple[TablePlan, ScoringPlan], ...]
    n_layers: int
    metered: bool = False
    without_set_shares: frozenset[tuple[str, str]] = frozenset()  # bank and table
    without_labels: frozenset[str] = frozenset()  # banks

    def set_shares(self, bank: str) -> list[Place]:
        """The tables whose sets a bank cannot work with yet."""
        return [
            (plan.table_id, 0)
            for plan, _ in self.tables
            if (bank, plan.table_id) in self.without_set_shares
        ]

    def label_requests(self, bank: str) -> list[Place]:
        """The parts of a bank's label shares, if they are missing."""
        (_, scoring) = self.tables[0]
        n_chunks = len(scoring.leaf_chunks()) if bank in self.without_labels else 0
        return [("", index) for index in range(n_chunks)]

    def queries(self, bank: str, route: Route) -> list[Place]:
        """The messages to a bank whose answers take this way."""
        broadcast = route == "summed"
        if self.metered != (route == "metered"):
            return []  # metered: no broadcast table is asked about
        return [
            (plan.table_id, index)
            for plan, scoring in self.tables
            if plan.broadcast == broadcast and bank in plan.banks
            for index in range(len(scoring.layer_chunks(plan, self.n_layers)))
        ]


def padded_layers(n_layers: int, at_once: int) -> int:
    """The number of layers that is asked for: a multiple of the public `at_once`."""
    return -(-n_layers // at_once) * at_once

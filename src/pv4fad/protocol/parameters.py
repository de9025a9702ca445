"""Run parameters: everything public about a run, checked once, and all that follows from it.

The payment network proposes them; every party derives the same rings, bounds, floods and message
sizes, and refuses what does not fit, naming the parameter.  Nothing here depends on anybody's
data beyond the declared, padded numbers of accounts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from fractions import Fraction
from functools import cached_property
from math import ceil, log, log2
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator

from pv4fad.errors import ParameterError
from pv4fad.evidence.cells import n_cells
from pv4fad.evidence.classes import (
    CountedSets,
    counted_sets,
    differing_memberships,
    n_kinds_of,
    provided_kinds,
)
from pv4fad.forest.structure import PublicSizes
from pv4fad.hashing.keyed import KEY_BYTES, N_FUNCTIONS
from pv4fad.hashing.table_size import TableLayout, largest_tree
from pv4fad.hashing.tags import log2_false_match_bound
from pv4fad.he.circuits import (
    compare_bound,
    distances_bound,
    indicators_bound,
    linear_bound,
    sealed_bound,
    values_bound,
)
from pv4fad.he.noise import CircuitBound
from pv4fad.he.ring import (
    DISTANCE_RING,
    PLAIN_MODULI,
    TAG_RING,
    Ring,
    RingParameters,
    compare_ring,
    match_ring,
    share_ring,
)
from pv4fad.he.strips import Strips
from pv4fad.privacy.bound import sensitivity
from pv4fad.privacy.delta import upper_bound
from pv4fad.privacy.epsilon import Epsilon, parse_epsilon
from pv4fad.privacy.noise import noise_tail_bound
from pv4fad.protocol.compare.steps import DIGIT_BASE, digit_bases
from pv4fad.protocol.count.packing import Lane, lanes
from pv4fad.protocol.match.comparison import N_DIGITS, N_LAST_REMAINDERS
from pv4fad.protocol.roles import NOT_BANKS
from pv4fad.schema import MOST_CLASSES, MOST_SIDES, Absent, Schema
from pv4fad.validated import ValidatedModel

LOG2_WRAP = -40.0  # a noisy sum leaves the range of t
LOG2_LOAD = -40.0  # a bin of a bank holds more accounts than were planned for
LOG2_DISTANCE = -30.0  # everything sanitised in a run, from uniform
LINEAR_DISTANCE_BITS = 40  # of each product and query, at least
LOG2_FALSE_MATCH = -20.0  # two different accounts pass for one, anywhere in a run

BROADCAST = "broadcast"  # the table that all banks get

_LEAST_DEGREE = 2  # below, there is nothing to evaluate
_MESSAGE_BYTES = 100 * 2**20  # of ciphertexts in one message, about
# A proposal comes from another party: no more work and memory than this follows from it.
_MOST_ACCOUNTS = 10**9
_MOST_BLOCKS = 2**12
MOST_STRIPS = 16
_MOST_TREES = 2**10
_MOST_LEAVES = 2**20

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
TableId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(@[1-9][0-9]{0,8})?$")]
Mode = Literal["counts", "released", "sealed"]
"""What training ends with: noisy counts that the payment network gets (the default model), or
labels of leaves (the paper's model), which it gets (released) or shares with the banks (sealed).
"""
NoiseMode = Literal["distributed", "per-bank", "none"]

NOT_OF_THE_MODEL = {"tables", "banks", "hash_key", "purpose", "model_modulus", "commitment"}
"""The parameters that a further match has of its own.  All others are those of the training."""


class TablePlan(ValidatedModel):
    """One table of accounts: who gets it, how its accounts are named, where its bins are."""

    table_id: TableId
    """Unique over all matches of a model: those after training end with @ and their epoch."""
    banks: tuple[Name, ...] = Field(min_length=1)
    broadcast: bool
    """Broadcast: bare ids, sent to all banks.  Routed: with what rows call a bank, sent to it."""
    layout: TableLayout


class RunParameters(ValidatedModel):
    """What all parties know about a run."""

    run_id: Name
    banks: dict[Name, Annotated[int, Field(ge=1, le=_MOST_ACCOUNTS)]] = Field(min_length=1)
    """The banks that take part, with the number of accounts each declares at most to hold."""
    tables: tuple[TablePlan, ...] = Field(min_length=1)
    schema_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of the schema, which all parties have: what a side, a class and a kind are."""
    sizes: PublicSizes
    bound: int = Field(ge=1, le=10**6)
    """Most weight that one account contributes to all sums together."""
    epsilon: str
    """The privacy loss of this run, exact; `none` switches the noise off."""
    noise: NoiseMode
    honest_banks: int = Field(ge=1)
    """Distributed noise: how many banks are assumed not to tell their noise to the others."""
    mode: Mode
    counted: CountedSets | None = None
    """Mode counts: the sets of classes that are counted in every cell."""
    absent: Absent | None = None
    """Mode counts: whether accounts that no bank has are a class, or as good as ordinary."""
    metered: bool = False
    """Whether answers to questions go by way of the aggregator, which counts the positive ones."""
    purpose: Literal["training", "matching"] = "training"
    """Matching: only the join is made anew or extended, for scoring with a trained model."""
    model_modulus: int | None = None
    """Matching: t of the model, because the labels are shared modulo t."""
    hash_key: bytes = Field(min_length=KEY_BYTES, max_length=KEY_BYTES, repr=False)
    """Public; drawn after the account sets are fixed."""
    commitment: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    """Of the payment network to its data, settings and what is counted; none in a match."""
    blocks_per_message: int = Field(default=2, ge=1, le=16)

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    @classmethod
    def from_json(cls, text: str | bytes) -> RunParameters:
        """Parameters as another party sent them, checked; ParameterError if they do not fit."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise ParameterError(f"run parameters: {where}: {problem['msg']}") from None

    @model_validator(mode="after")
    def _fits_together(self) -> RunParameters:
        self._check_names()
        self._check_sizes()
        if (self.epsilon == "none") != (self.noise == "none"):
            raise ParameterError("epsilon none goes with noise none, and with no other")
        if parse_epsilon(self.epsilon) == 0:
            raise ParameterError("epsilon must be above 0, or none")
        if self.honest_banks > len(self.banks):
            raise ParameterError(
                f"{self.honest_banks} honest parties have to add noise, but only {len(self.banks)}"
                " keep records and can"
            )
        if (self.purpose == "matching") != (self.model_modulus is not None):
            raise ParameterError("model_modulus is for matching, and matching needs it")
        if self.model_modulus is not None and self.model_modulus not in PLAIN_MODULI:
            raise ParameterError(f"model_modulus {self.model_modulus} is not one of {PLAIN_MODULI}")
        if any(plan.layout.n_trees != self.sizes.n_trees for plan in self.tables):
            raise ParameterError("n_trees of a table's layout is not that of the forest")
        self._check_model()
        if self.metered and self.mode == "sealed":
            raise ParameterError("metered: vote totals cannot be metered, only bits")
        if self.log2_false_match > LOG2_FALSE_MATCH:
            raise ParameterError(
                "banks: two different records pass for one with probability "
                f"2^{self.log2_false_match:.1f}, above 2^{LOG2_FALSE_MATCH:.0f}: "
                "declare fewer records, or use fewer tables"
            )
        if self.log2_distance > LOG2_DISTANCE:
            raise ParameterError(
                f"plain_modulus {self.plain_modulus}: sanitised ciphertexts are within "
                f"2^{self.log2_distance:.1f} of uniform, above 2^{LOG2_DISTANCE:.0f}: "
                + (
                    f"use fewer kinds (now n_atoms = {self.sizes.n_atoms}), records or parties"
                    if self.mode == "counts"
                    else "lower the bound, or use more trees"
                )
            )
        return self

    def _check_model(self) -> None:
        if self.mode != "counts":
            if self.counted is not None or self.absent is not None:
                raise ParameterError("counted and absent are for mode counts only")
            return
        if self.counted is None or self.absent is None:
            raise ParameterError("mode counts needs counted and absent")
        n_kinds = n_kinds_of(self.sizes.n_atoms, self.absent)
        if n_kinds < 1:
            raise ParameterError("n_atoms: mode counts needs at least one kind besides ordinary")
        if self.sizes != count_sizes(self.counted, self.absent, n_kinds, self.sizes.n_sides):
            raise ParameterError("sizes are not those of the cells and sets of mode counts")

    def _check_names(self) -> None:
        table_ids = [plan.table_id for plan in self.tables]
        if len(set(table_ids)) < len(table_ids):
            raise ParameterError("two tables have the same table_id")
        for plan in self.tables:
            if not set(plan.banks) <= set(self.banks):
                raise ParameterError(f"table {plan.table_id} goes to a party that takes no part")
            if not plan.broadcast and len(plan.banks) != 1:
                raise ParameterError(f"table {plan.table_id} is routed, but goes to several")
        for bank in self.banks:
            if bank in (*NOT_BANKS, BROADCAST):
                raise ParameterError(f"{bank} cannot be the name of a party with records")
            if not self.tables_of(bank):
                raise ParameterError(f"tables: {bank} gets none, so it could not add noise")

    def _check_sizes(self) -> None:
        sizes, degree = self.sizes, match_ring(PLAIN_MODULI[0]).degree
        for name, value, most in (
            ("n_trees", sizes.n_trees, _MOST_TREES),
            ("groups_per_tree", sizes.n_leaves, _MOST_LEAVES),
            ("n_atoms", sizes.n_atoms, MOST_CLASSES),
            ("n_sides", sizes.n_sides, MOST_SIDES),
            ("n_distinct_sets", sizes.n_distinct_sets, _MOST_LEAVES),
            ("n_blocks", max(plan.layout.n_blocks for plan in self.tables), _MOST_BLOCKS),
        ):
            if value > most:
                raise ParameterError(f"{name}: {value} is more than the {most} that are supported")
        for layout in (plan.layout for plan in self.tables):
            n_strips = degree // layout.block_size
            if n_strips not in range(1, MOST_STRIPS + 1) or layout.block_size != degree // n_strips:
                raise ParameterError(
                    f"block_size: {layout.block_size} bins are no strip of a ciphertext of {degree}"
                    f" slots; it has 1 to {MOST_STRIPS} strips of equal size"
                )
            if n_strips > 1 and layout.n_blocks > 1:
                raise ParameterError("block_size: a table of several blocks has full ones")

    # Privacy.

    @property
    def exact_epsilon(self) -> Epsilon:
        return parse_epsilon(self.epsilon)

    @property
    def sensitivity(self) -> int:
        """Δ: how much one account record can change all sums together."""
        if self.counted is not None and self.absent is not None:
            n_kinds = n_kinds_of(self.sizes.n_atoms, self.absent)
            sets = counted_sets(self.counted, self.absent, n_kinds)
            return self.bound * differing_memberships(sets, self.sizes.n_atoms)
        return sensitivity(self.bound, self.sizes.n_sets)

    def require_schema(self, schema: Schema) -> None:
        """Refuse a run about other data than this party's schema declares."""
        if self.schema_digest != schema.digest:
            raise ParameterError(
                f"this party's schema {schema.name!r} ({schema.digest[:8]}) is not that of run"
                f" {self.run_id} ({self.schema_digest[:8]}): all parties need the same schema"
            )
        if (self.sizes.n_sides, self.sizes.n_atoms) != (
            schema.n_sides,
            len(schema.atoms(self.absent)),
        ):
            raise ParameterError(f"n_atoms and n_sides are not those of schema {schema.name!r}")

    # Sizes of numbers.

    @cached_property
    def accounts_of_one_tree(self) -> int:
        """The most accounts that teach one tree, except with negligible probability."""
        declared = sum(plan.layout.n_accounts_declared for plan in self.tables)
        return largest_tree(declared, self.sizes.n_trees, LOG2_WRAP)

    @cached_property
    def noise_tail(self) -> int:
        """No noisy sum is further from its count than this, except with negligible probability."""
        epsilon = self.exact_epsilon
        if isinstance(epsilon, str):
            return 0
        n_parties = len(self.banks)
        per_sum = noise_tail_bound(
            epsilon,
            self.sensitivity,
            n_parties=n_parties,
            honest_parties=self.honest_banks if self.noise == "distributed" else None,
            n_draws=self.sizes.n_sums,
            log2_probability=LOG2_WRAP,
        )
        # The rest, a leaf of the paper's model, carries the noise of all sets.
        return per_sum * (1 if self.mode == "counts" else self.sizes.n_sets)

    @cached_property
    def largest_sum(self) -> int:
        """The largest |noisy sum|."""
        return self.bound * self.accounts_of_one_tree + self.noise_tail

    @cached_property
    def plain_modulus(self) -> int:
        """The smallest t that holds every noisy sum."""
        if self.model_modulus is not None:
            return self.model_modulus
        for modulus in PLAIN_MODULI:
            if self._n_values < modulus:
                return modulus
        of_trees = "lower the bound, or use more trees"
        of_counts = "raise epsilon, or let fewer records take part"
        advice = of_counts if self.mode == "counts" else of_trees
        raise ParameterError(
            f"sums can reach {self.largest_sum}, of which {self.noise_tail} are noise: too many"
            f" different values for the largest plaintext modulus {PLAIN_MODULI[-1]}; {advice}"
        )

    @property
    def _n_values(self) -> int:
        """How many different values a noisy sum can have.  A count is never below 0 but for its
        noise; a sum of weights has either sign."""
        if self.mode == "counts":
            return self.largest_sum + self.noise_tail + 1
        return 2 * self.largest_sum + 1

    def signed(self, residues: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The noisy sums that these residues modulo t stand for."""
        below = self.noise_tail if self.mode == "counts" else self.plain_modulus // 2
        values = residues.astype(np.int64)
        return np.where(values >= self.plain_modulus - below, values - self.plain_modulus, values)

    # Rings, bounds and floods.

    @cached_property
    def match_ring(self) -> RingParameters:
        return match_ring(self.plain_modulus)

    @cached_property
    def network_rings(self) -> dict[str, RingParameters]:
        """The payment network's rings in which banks compute, by name."""
        return {"tags": TAG_RING, "distances": DISTANCE_RING, "match": self.match_ring}

    @cached_property
    def compare_ring(self) -> RingParameters:
        return compare_ring(self.plain_modulus)

    @cached_property
    def aggregator_rings(self) -> dict[str, RingParameters]:
        """The payment network's rings in which the aggregator computes."""
        return {} if self.mode == "counts" else {"compare": self.compare_ring}

    @cached_property
    def share_ring(self) -> RingParameters:
        return share_ring(self.plain_modulus)

    def largest_load(self, plan: TablePlan) -> int:
        """β: no bin of a bank has more accounts in this table, except with small probability."""
        loads = (most_in_a_bin(self.banks[bank], plan.layout.n_bins_used) for bank in plan.banks)
        return max(_LEAST_DEGREE, *loads)

    def strips(self, plan: TablePlan) -> Strips:
        """How a block of a table lies in the slots of a ciphertext."""
        return Strips(plan.layout.block_size, self.match_ring.degree)

    def share_blocks_per_block(self, plan: TablePlan) -> int:
        """Blocks of the share ring that the bins of a block take."""
        return -(-plan.layout.block_size // self.share_ring.degree)

    @cached_property
    def bounds(self) -> dict[str, CircuitBound]:
        """The static noise bound of every circuit of the run."""
        match, share = Ring.of(self.match_ring), Ring.of(self.share_ring)
        # Each tree of a lane multiplies shares by its own integers, also where it shares a block,
        # and perhaps the set, so that the errors are the same.
        in_use = [lane for plan in self.tables for lane in self.lanes(plan)]
        products = max(len(lane.trees) * len(lane.blocks) for lane in in_use)
        most_trees = max(len(lane.trees) for lane in in_use)
        terms = max(products, self.sizes.n_distinct_sets) * self.sizes.n_atoms
        shapes = {(self.largest_load(plan), self.strips(plan).n) for plan in self.tables}
        values = (values_bound(Ring.of(TAG_RING), *shape) for shape in shapes)
        bounds = {
            "values": max(values, key=lambda bound: bound.noise_bits),
            "distances": distances_bound(Ring.of(DISTANCE_RING), N_DIGITS),
            "indicators": indicators_bound(match, N_LAST_REMAINDERS),
            "linear": self._linear_bound(share, terms, most_trees),
        }
        if self.mode != "counts":
            n_digits, sizes = len(digit_bases(self.plain_modulus)), self.sizes
            compare = Ring.of(self.compare_ring)
            bounds["compare"] = compare_bound(compare, n_digits, DIGIT_BASE)
            bounds["sealed"] = sealed_bound(share, sizes.n_leaves, sizes.n_distinct_sets)
        return bounds

    def _linear_bound(self, share: Ring, n_terms: int, n_alike: int) -> CircuitBound:
        """At two primes if that leaves room enough for the run, otherwise at three."""
        bound = linear_bound(share, n_terms, 2, n_alike)
        of_run = log2(max(1, self.n_sanitised.get("linear", 0))) - bound.distance_bits
        enough = bound.distance_bits >= LINEAR_DISTANCE_BITS and of_run <= LOG2_DISTANCE - 2
        return bound if enough else linear_bound(share, n_terms, 3, n_alike)

    def for_aggregator(self) -> RunParameters:
        """What the aggregator is told: it hashes no account, so it gets no key for that."""
        return self.model_copy(update={"hash_key": bytes(KEY_BYTES)})

    @cached_property
    def n_sanitised(self) -> dict[str, int]:
        """How many ciphertexts of each circuit go back to their key holder in training."""
        return self.n_sanitised_with(self.banks)

    def n_sanitised_with(self, banks: Collection[str]) -> dict[str, int]:
        """The same between the payment network and some banks."""
        plans = [plan for plan in self.tables for bank in plan.banks if bank in banks]
        n_blocks = sum(plan.layout.n_blocks for plan in plans)
        match = {
            "values": 2 * n_blocks,
            "distances": 2 * n_blocks,
            "indicators": self.sizes.n_atoms * n_blocks,
        }
        if self.purpose == "matching":
            return match
        per_tree = self.sizes.sums_per_tree
        sanitised = match | {"linear": sum(len(self.lanes(plan)) * per_tree for plan in plans)}
        return sanitised if self.mode == "counts" else sanitised | {"compare": self.n_leaf_blocks}

    def delta_with(self, bank: str) -> Fraction:
        """δ of training or of a match for the records of one bank: what is sanitised between it and
        the payment network, and false matches in its tables.  Not below the exact sum."""
        sanitised = self.n_sanitised_with([bank])
        terms = [log2(n) - self.bounds[name].distance_bits for name, n in sanitised.items() if n]
        return upper_bound([*terms, self.log2_false_match_at([bank])])

    @property
    def delta(self) -> Fraction:
        """δ for the bank for which it is largest."""
        return max(map(self.delta_with, self.banks))

    @cached_property
    def log2_distance(self) -> float:
        """Of everything sanitised in training, from uniform."""
        return log2(
            sum(n * 2.0 ** -self.bounds[name].distance_bits for name, n in self.n_sanitised.items())
        )

    @cached_property
    def log2_false_match(self) -> float:
        """That some account of the payment network passes for a different one at some bank."""
        return self.log2_false_match_at(self.banks)

    def log2_false_match_at(self, banks: Collection[str]) -> float:
        """The same at some of the banks."""
        met = [
            (plan, self.banks[bank]) for plan in self.tables for bank in plan.banks if bank in banks
        ]
        # Every bin has a value, be it of an account or random; a bank pads one bin of each block.
        pairs = sum(
            N_FUNCTIONS * n_accounts + plan.layout.n_blocks * self.largest_load(plan)
            for plan, n_accounts in met
        )
        n_bins = sum(plan.layout.n_bins for plan, _ in met)
        return log2_false_match_bound(pairs, n_bins, self.sizes.n_atoms)

    # Messages.

    @property
    def n_leaf_blocks(self) -> int:
        """Ciphertexts of the compare ring that hold one value per leaf."""
        return -(-self.sizes.n_leaves // self.compare_ring.degree)

    def n_chunks(self, plan: TablePlan) -> int:
        """Messages in which a table is sent."""
        return -(-plan.layout.n_blocks // self.blocks_per_message)

    def blocks_of_chunk(self, plan: TablePlan, chunk: int) -> range:
        """The blocks that one message carries."""
        start = chunk * self.blocks_per_message
        return range(start, min(start + self.blocks_per_message, plan.layout.n_blocks))

    def lanes(self, plan: TablePlan) -> tuple[Lane, ...]:
        """Which trees share ciphertexts when this table is counted."""
        return lanes(plan.layout, self.share_ring.degree)

    def lanes_of_chunk(self, plan: TablePlan, chunk: int) -> tuple[Lane, ...]:
        """The lanes whose ciphertexts one message carries: as many as fit a bounded size."""
        per_lane = self.sizes.sums_per_tree * Ring.of(self.share_ring).ciphertext_bytes(1)
        n = max(1, _MESSAGE_BYTES // per_lane)
        return self.lanes(plan)[chunk * n : (chunk + 1) * n]

    def match_steps(self, bank: str) -> list[tuple[TablePlan, int]]:
        """The messages with encrypted blocks that a bank receives, in order."""
        return [
            (plan, chunk) for plan in self.tables_of(bank) for chunk in range(self.n_chunks(plan))
        ]

    def count_steps(self, bank: str) -> list[tuple[TablePlan, int]]:
        """The messages with masked products that a bank receives, in order."""
        if self.purpose == "matching":
            return []
        steps = []
        for plan in self.tables_of(bank):
            chunk = 0
            while self.lanes_of_chunk(plan, chunk):
                steps.append((plan, chunk))
                chunk += 1
        return steps

    def tables_of(self, bank: str) -> tuple[TablePlan, ...]:
        """The tables that a bank receives."""
        return tuple(plan for plan in self.tables if bank in plan.banks)

    def table(self, table_id: str) -> TablePlan:
        """A table by its id."""
        for plan in self.tables:
            if plan.table_id == table_id:
                return plan
        raise ParameterError(f"there is no table {table_id!r} in run {self.run_id}")


def count_sizes(counted: CountedSets, absent: Absent, n_kinds: int, n_sides: int) -> PublicSizes:
    """What is public about the counts of the default model: one list of cells, no trees."""
    n_sets = len(counted_sets(counted, absent, n_kinds))
    return PublicSizes(
        n_trees=1,
        groups_per_tree=n_cells(n_sides),
        n_sets=n_sets,
        n_distinct_sets=n_sets,
        n_atoms=len(provided_kinds(absent, n_kinds)),
        n_sides=n_sides,
    )


def digest_of(parameters: RunParameters) -> bytes:
    """What two parties compare, or mix into what they share, to have the same parameters."""
    return hashlib.sha256(parameters.model_dump_json().encode()).digest()


def table_epoch(table_id: str) -> int:
    """The match that made a table: `bank01` training's, `bank01@3` that of epoch 3."""
    _, at, epoch = table_id.partition("@")
    return int(epoch) if at and epoch.isdigit() else 0


def most_in_a_bin(n_accounts: int, n_bins: int) -> int:
    """The load that no bin exceeds, except with probability 2^LOG2_LOAD.

    Chernoff for the number of the 3·n balls in one bin, times the number of bins.
    """
    mean = N_FUNCTIONS * n_accounts / n_bins
    if mean == 0:
        return 1
    allowed = LOG2_LOAD * log(2) - log(n_bins)
    load = max(1, ceil(mean))
    while load <= mean or (load - mean - load * log(load / mean)) > allowed:
        load += 1
    return min(load, max(1, n_accounts))

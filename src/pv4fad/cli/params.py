"""`pv4fad params`: the parameters of a run of given sizes, and every bound that follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import log2, prod
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pv4fad.cli.console import out, print_json
from pv4fad.cli.options import AsJson
from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import CountedSets
from pv4fad.forest.structure import PublicSizes
from pv4fad.hashing.keyed import KEY_BYTES
from pv4fad.hashing.table_size import LOG2_FAILURE
from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.circuits import VALUE_PRIMES
from pv4fad.he.noise import FAILURE_BITS, RUN_POLYNOMIAL_BITS, VALUE_BITS
from pv4fad.he.polynomial import n_powers
from pv4fad.he.ring import (
    DISTANCE_RING,
    PLAIN_MODULI,
    TAG_RING,
    Ring,
    RingParameters,
    most_bits,
)
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.effective import default_honest_banks
from pv4fad.protocol.compare.steps import digit_bases
from pv4fad.protocol.layouts import cheapest_layout
from pv4fad.protocol.match.comparison import N_BITS, N_DIGITS, N_LAST_REMAINDERS
from pv4fad.protocol.parameters import (
    LOG2_DISTANCE,
    LOG2_FALSE_MATCH,
    LOG2_LOAD,
    LOG2_WRAP,
    Mode,
    NoiseMode,
    RunParameters,
    TablePlan,
    count_sizes,
)
from pv4fad.protocol.propose.ring_keys import new_keys, new_share_keys
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.tables import padded
from pv4fad.schema import Absent, Schema, read_schema
from pv4fad.words import Words

_MOST = 10**9  # accounts
_DEFAULT, _PAPER = "The default model", "The paper's model"
_PAPER_DEFAULTS: dict[str, Any] = {
    "scoring": "decisions",
    "trees": 12,
    "groups": 34,
    "node-sets": 1,
    "atoms": None,
    "bound": 1,
}


def command(
    *,
    pns_accounts: Annotated[
        int,
        typer.Option("--pns-accounts", min=1, max=_MOST, help="Accounts of the payment network."),
    ],
    bank_accounts: Annotated[
        int, typer.Option("--bank-accounts", min=1, max=_MOST, help="Accounts of each bank.")
    ],
    banks: Annotated[
        int, typer.Option("--banks", min=1, max=1000, help="Banks that take part.")
    ] = 1,
    model: Annotated[
        Literal["evidence", "paper"],
        typer.Option("--model", help="Noisy counts, or the paper's trees."),
    ] = "evidence",
    sets: Annotated[CountedSets, typer.Option("--sets", rich_help_panel=_DEFAULT)] = "fine",
    absent: Annotated[Absent, typer.Option("--absent", rich_help_panel=_DEFAULT)] = "class",
    scoring: Annotated[
        Literal["decisions", "votes"], typer.Option("--scoring", rich_help_panel=_PAPER)
    ] = "decisions",
    trees: Annotated[int, typer.Option("--trees", min=1, rich_help_panel=_PAPER)] = 12,
    groups: Annotated[
        int, typer.Option("--groups", min=1, help="Groups per tree.", rich_help_panel=_PAPER)
    ] = 34,
    node_sets: Annotated[
        int,
        typer.Option(
            "--node-sets", min=1, max=2, help="Sets per bank node.", rich_help_panel=_PAPER
        ),
    ] = 1,
    atoms: Annotated[
        int | None,
        typer.Option(
            "--atoms",
            min=1,
            help="Atoms of a record. Default: the classes of the schema.",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    bound: Annotated[
        int,
        typer.Option("--bound", min=1, help="Most weight of one account.", rich_help_panel=_PAPER),
    ] = 1,
    epsilon: Annotated[str, typer.Option("--epsilon", help="A number, or none.")] = "1",
    noise: Annotated[
        NoiseMode, typer.Option("--noise", help="Who adds it: all banks together, each, or none.")
    ] = "distributed",
    honest_banks: Annotated[
        int | None,
        typer.Option("--honest-banks", min=1, help="Half of the banks if not set."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Its sides and classes count (docs/use/schema.md). Default: payments.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the parameters of a run of these sizes, its bounds and its message sizes.

    Exit code 2: no parameters fit; the message names the one to change.
    """
    paper = {
        "scoring": scoring,
        "trees": trees,
        "groups": groups,
        "node-sets": node_sets,
        "atoms": atoms,
        "bound": bound,
    }
    settled = SCHEMA if schema is None else read_schema(schema)
    if model == "evidence":
        if wrong := [name for name, value in paper.items() if value != _PAPER_DEFAULTS[name]]:
            raise ParameterError(f"{wrong[0]} is an option of model paper only")
        planned = default_model(sets, absent, settled)
    else:
        n_atoms = atoms or len(settled.record.classes)
        sizes = PublicSizes(trees, groups, node_sets, node_sets, n_atoms, settled.n_sides)
        planned = paper_model(sizes, bound, "released" if scoring == "decisions" else "sealed")
    parameters = plan_run(
        planned,
        pns_accounts,
        bank_accounts,
        banks,
        epsilon=epsilon,
        noise=noise,
        honest_banks=honest_banks or default_honest_banks(banks),
        schema=settled,
    )
    document = _in_words(report(parameters), settled.words)
    if as_json:
        print_json(_plain(document))
        return
    for section, entries in document.items():
        out.print(f"[bold]{section}[/]")
        for line in _lines(entries):
            out.print(f"  {line}", markup=False, soft_wrap=True)


@dataclass(frozen=True)
class PlannedModel:
    """What the run's parameters say of the model."""

    mode: Mode
    sizes: PublicSizes
    bound: int
    counted: CountedSets | None = None
    absent: Absent | None = None


def default_model(sets: CountedSets, absent: Absent, schema: Schema = SCHEMA) -> PlannedModel:
    """Noisy counts of kinds in cells; every account counts once."""
    sizes = count_sizes(sets, absent, len(schema.record.kind_names), schema.n_sides)
    return PlannedModel("counts", sizes, 1, sets, absent)


def paper_model(sizes: PublicSizes, bound: int, mode: Mode) -> PlannedModel:
    """Labels of leaves, released or sealed."""
    return PlannedModel(mode, sizes, bound)


def plan_run(
    model: PlannedModel,
    pns_accounts: int,
    bank_accounts: int,
    n_banks: int,
    *,
    epsilon: str,
    noise: NoiseMode,
    honest_banks: int,
    schema: Schema = SCHEMA,
) -> RunParameters:
    """A run whose payment network has equally many accounts at every bank."""
    names = [f"bank{number:02d}" for number in range(1, n_banks + 1)]
    layout = cheapest_layout(
        padded(-(-pns_accounts // n_banks)),
        padded(bank_accounts),
        n_trees=model.sizes.n_trees,
        n_atoms=model.sizes.n_atoms,
        n_tables=n_banks,
    )
    return RunParameters(
        **vars(model),
        run_id="plan",
        schema_digest=schema.digest,
        banks=dict.fromkeys(names, padded(bank_accounts)),
        tables=tuple(
            TablePlan(table_id=name, banks=(name,), broadcast=False, layout=layout)
            for name in names
        ),
        epsilon=epsilon,
        noise=noise,
        honest_banks=honest_banks,
        hash_key=bytes(KEY_BYTES),
    )


@dataclass(frozen=True)
class Limited:
    """log2 of a probability, and what it must not exceed."""

    log2: float
    limit: float

    def __str__(self) -> str:
        return f"{self.log2:.1f} (limit {self.limit:.0f})"


@dataclass(frozen=True)
class Size:
    """Bytes of equal parts."""

    count: int
    each: int

    def __str__(self) -> str:
        return f"{self.count * self.each:,} ({self.count:,} x {self.each:,})"


def report(parameters: RunParameters) -> dict[str, dict[str, Any]]:
    """Everything, by section, with places for words."""
    return {
        "sums": _sums(parameters),
        "tag ring": _ring(TAG_RING),
        "distance ring": _ring(DISTANCE_RING),
        "match ring": _ring(parameters.match_ring),
        **{f"{name} ring": _ring(ring) for name, ring in parameters.aggregator_rings.items()},
        "share ring": _ring(parameters.share_ring),
        "tables": _tables(parameters),
        "static noise bounds, log2 of |message + t·noise|": {
            name: {step: round(bits, 1) for step, bits in bound.steps.items()}
            for name, bound in parameters.bounds.items()
        },
        "sanitising": _sanitising(parameters),
        "decryption": {
            "log2 failure": -FAILURE_BITS,
            "why": f"each bound above fails for one of 2^{RUN_POLYNOMIAL_BITS + VALUE_BITS}"
            " values with at most that probability, and what is sent holds message, noise and"
            " flood",
        },
        "messages in bytes, over all {holders}": dict(_messages(parameters)),
    }


def _sums(parameters: RunParameters) -> dict[str, Any]:
    sizes, t = parameters.sizes, parameters.plain_modulus
    smaller = [modulus for modulus in PLAIN_MODULI if modulus < t]
    if parameters.mode == "counts":
        model = {
            "model": "evidence",
            "sets": parameters.counted,
            "absent": parameters.absent,
            "cells": sizes.n_groups,
            "sums": sizes.n_sums,
        }
        why = f"t must exceed {{records}} counted + twice the noise tail (except 2^{LOG2_WRAP:.0f})"
        accounts = "{records} counted"
    else:
        model = {
            "model": "paper",
            "labels": parameters.mode,
            "trees": sizes.n_trees,
            "groups": sizes.n_groups,
            "sums": sizes.n_sums,
            "red leaves": sizes.n_leaves,
        }
        why = (
            "t/2 must exceed bound x {records} of one tree + noise tail"
            f" (both except 2^{LOG2_WRAP:.0f})"
        )
        accounts = "{records} of one tree"
    return model | {
        "epsilon": parameters.epsilon,
        "noise": parameters.noise,
        "honest {holders}": parameters.honest_banks,
        "bound": parameters.bound,
        "sensitivity": parameters.sensitivity,
        accounts: parameters.accounts_of_one_tree,
        "noise tail": parameters.noise_tail,
        "largest sum": parameters.largest_sum,
        "plain modulus t": t,
        "why": why + (f"; {smaller[-1]} is too small" if smaller else ""),
    }


def _ring(parameters: RingParameters) -> dict[str, Any]:
    *data, special = parameters.prime_bits
    return {
        "degree": parameters.degree,
        "bits of the primes": data,
        "bits of the special prime": special,
        "bits in total": sum(parameters.prime_bits),
        "limit for 128-bit security": most_bits(parameters.degree),
    }


def _tables(parameters: RunParameters) -> dict[str, Any]:
    plan, layout = parameters.tables[0], parameters.tables[0].layout
    return {
        "tables": len(parameters.tables),
        "{records} declared for each": layout.n_accounts_declared,
        "{records} declared by each {holder}": parameters.banks[plan.banks[0]],
        "blocks": layout.n_blocks,
        "bins of a block": layout.block_size,
        "strips of a ciphertext": parameters.strips(plan).n,
        "segments": layout.n_segments,
        "bins per segment": layout.bins_per_segment,
        "bins per {record}": round(layout.n_bins_used / layout.n_accounts_declared, 3),
        "log2 placement failure": Limited(layout.log2_failure(), LOG2_FAILURE),
        "{records} of {a_holder} in a bin, at most": parameters.largest_load(plan),
        "log2 more than that": LOG2_LOAD,
        "ciphertexts for the powers of a tag": _n_powers(parameters, plan),
        "tags modulo": TAG_MODULUS,
        "log2 false match": Limited(parameters.log2_false_match, LOG2_FALSE_MATCH),
    }


def _sanitising(parameters: RunParameters) -> dict[str, Any]:
    circuits: dict[str, Any] = {}
    rings = {
        "values": TAG_RING,
        "distances": DISTANCE_RING,
        "indicators": parameters.match_ring,
        "compare": parameters.compare_ring,
    }
    for name, bound in parameters.bounds.items():
        ring = Ring.of(rings.get(name, parameters.share_ring))
        modulus = prod(ring.primes[: bound.flood.n_primes])
        circuits[name] = {
            "primes": bound.flood.n_primes,
            "log2 noise": round(bound.noise_bits, 1),
            "log2 flood": round(bound.flood.range_bits, 1),
            "log2 room": round(log2(modulus / ring.plain_modulus) - 1, 1),
            "log2 distance": round(-bound.distance_bits, 1),
            "if the key holder deviates": round(-bound.deviating_bits, 1),
            "ciphertexts in training": parameters.n_sanitised.get(name, 0),
        }
    return circuits | {
        "log2 distance in training": Limited(parameters.log2_distance, LOG2_DISTANCE),
        "δ of {a_holder} in training": delta_text(parameters.delta),
    }


def _messages(parameters: RunParameters) -> Iterator[tuple[str, Size]]:
    """The rows of protocol.md §8."""
    rings = [Ring.of(ring) for ring in parameters.network_rings.values()]
    (tag, distance, match), share = rings, Ring.of(parameters.share_ring)
    tag_top, distance_top, match_top, share_top = (
        ring.ciphertext_bytes(ring.parameters.n_data_primes) for ring in (*rings, share)
    )
    match_last, share_last = match.ciphertext_bytes(1), share.ciphertext_bytes(1)
    compare = Ring.of(parameters.compare_ring)
    sizes, n_banks, scoring = parameters.sizes, len(parameters.banks), ScoringPlan(parameters)
    n_blocks = sum(plan.layout.n_blocks for plan in parameters.tables)
    n_share_blocks = sum(map(scoring.n_share_blocks, parameters.tables))
    pns = [pair.public for name, pair in new_keys(parameters).items() if name != "compare"]
    bank = new_share_keys(parameters, "bank01").public
    pns_keys = sum(len(key.data) + len(key.relinearisation or b"") for key in pns)
    n_digits = sum(digit_bases(parameters.plain_modulus)) * parameters.n_leaf_blocks
    n_of_powers = sum(
        _n_powers(parameters, plan) * plan.layout.n_blocks for plan in parameters.tables
    )

    def ciphertexts(n_rows: int) -> int:
        """In which so many rows of every block fit."""
        return sum(
            parameters.strips(plan).n_ciphertexts(n_rows) * plan.layout.n_blocks
            for plan in parameters.tables
        )

    yield "0 keys, S → B", Size(n_banks, pns_keys)
    yield "0 keys, B → S", Size(n_banks, len(bank.data))
    yield "1 powers, S → B", Size(n_of_powers, tag_top)
    yield "1 values, B → S", Size(2 * n_blocks, tag.ciphertext_bytes(VALUE_PRIMES))
    yield "2 digits, S → B", Size(ciphertexts(N_DIGITS), distance_top)
    yield "2 distances, B → S", Size(n_blocks, distance.ciphertext_bytes(1))
    yield "3 bits, S → B", Size(ciphertexts(N_BITS), distance_top)
    yield "3 differences, B → S", Size(n_blocks, distance.ciphertext_bytes(1))
    yield "3 remainders, S → B", Size(ciphertexts(N_LAST_REMAINDERS), match_top)
    yield "3 classes, S → B", Size((sizes.n_atoms - 1) * n_blocks, match_top)
    yield "3 indicators, B → S", Size(sizes.n_atoms * n_blocks, match_last)
    yield "3 shares, B → S", Size(sizes.n_atoms * n_share_blocks, share_top)
    yield "4 products, S → B", Size(parameters.n_sanitised["linear"], share_last)
    yield "5 noisy sums, B → A", Size(sizes.n_sums * n_banks, 8)
    if parameters.mode == "counts":
        yield "6 noisy counts, A → S", Size(sizes.n_sums, 8)
    else:
        yield "6 blinded sums, A → S", Size(sizes.n_leaves, 8)
        compare_top = compare.ciphertext_bytes(compare.parameters.n_data_primes)
        yield "7 digits, S → A", Size(n_digits, compare_top)
        yield "8 labels, A → S", Size(parameters.n_leaf_blocks, compare.ciphertext_bytes(1))
    if parameters.mode == "released":
        yield "9 label masks, A → S", Size(sizes.n_leaves, 8)
    step = "each round"
    if parameters.mode == "sealed":
        step = "each layer"
        yield "9 label masks, A → B", Size(sizes.n_leaves * n_banks, 8)
        yield "10 labels, B → S", Size(sizes.n_leaves * n_banks, share_top)
        yield "10 set shares, S → B", Size(sizes.n_distinct_sets * n_share_blocks, share_last)
    n_queries = scoring.queries_per_slot * n_share_blocks
    yield f"11 queries, S → B, {step}", Size(n_queries, share_last)
    yield f"12 replies, B → S, {step}", Size(share.degree * n_share_blocks, 4)


def _n_powers(parameters: RunParameters, plan: TablePlan) -> int:
    return n_powers(parameters.largest_load(plan), parameters.strips(plan).n)


def _in_words(value: Any, words: Words) -> Any:
    """A report in the words of a schema."""
    if isinstance(value, dict):
        return {words.of_file(name): _in_words(inner, words) for name, inner in value.items()}
    return words.of_file(value) if isinstance(value, str) else value


def _lines(entries: dict[str, Any]) -> Iterator[str]:
    width = max(map(len, entries))
    for name, value in entries.items():
        yield f"{name:<{width}}  {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_text(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(value: Any) -> Any:
    """For JSON."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Size):
        return {"bytes": value.count * value.each, "count": value.count, "each": value.each}
    return asdict(value) if isinstance(value, Limited) else value

"""The payment network in score (protocol.md §6, §11): it lays out a batch and keeps the answers.

A batch is one round of questions, one slot for each account of every table; or, for votes of a
sealed model, some layers, where every transaction side that reaches a red group takes one (table,
bin, layer).  All tables get the same number of layers, whichever accounts are asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import BudgetError, OrderError, ProtocolError
from pv4fad.he.ring import Ring
from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.order import messages_of
from pv4fad.protocol.parameters import table_epoch
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.score.inputs import Round, ScoringInput
from pv4fad.protocol.score.messages import (
    EncryptedLabels,
    LabelRequest,
    MeteringStopped,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.metering import put_back
from pv4fad.protocol.score.plan import Batch, ScoringPlan, padded_layers
from pv4fad.protocol.score.queries import add_to_totals
from pv4fad.protocol.score.state import (
    BatchPlan,
    Codes,
    EncryptedLabelShares,
    LabelSharesKept,
    Permutation,
    Questions,
    SetSharesKept,
    Slots,
    Stopped,
    Totals,
)
from pv4fad.protocol.score.tables import Tables, stored_forest
from pv4fad.protocol.state import parameters_of, with_keys_in_use
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records


@dataclass(frozen=True)
class BatchSize:
    """What everybody can see of a batch."""

    layers: int
    messages: int


# The batch.


def lay_out(data: Round | ScoringInput, batch: Records) -> Batch:
    """A place for everything that is asked about; what follows from it is public."""
    training = batch.of_epoch(0)
    tables = Tables(training)
    if isinstance(data, Round) == (tables.mode == "sealed"):
        raise OrderError(f"a model of mode {tables.mode} is not scored in this way")
    without_set_shares, without_labels = _lacking(tables, training)
    plan = BatchPlan(
        tuple(table.table_id for table in tables.plans),
        n_layers=1,
        n_messages=0,
        without_set_shares=without_set_shares,
        without_labels=without_labels,
    )
    if isinstance(data, Round):
        _lay_out_questions(data, tables, batch)
        plan = replace(plan, sets=data.sets)
    else:
        n_layers = _lay_out_votes(data, tables, batch)
        plan = replace(plan, n_layers=n_layers, n_transactions=len(data.codes))
    public = _public(plan, tables)
    batch.put(replace(plan, n_messages=sum(messages_of(public).values())))
    return public


def batch_of(batch: Records) -> Batch:
    """What is public about a batch that is under way."""
    return _public(batch.get(BatchPlan), Tables(batch.of_epoch(0)))


def size_of(batch: Records) -> BatchSize:
    """How large a batch is."""
    plan = batch.get(BatchPlan)
    return BatchSize(plan.n_layers, plan.n_messages)


def n_sums(batch: Batch) -> int:
    """The sums that the aggregator sends: one for each message about a broadcast table, or,
    metered, about any."""
    if batch.metered:
        return sum(len(batch.queries(bank, "metered")) for bank in batch.banks)
    return len(batch.queries(batch.banks[0], "summed"))


def unknown_accounts(keys: Sequence[AccountKey], training: Records) -> list[int]:
    """The accounts that are in no table yet."""
    places = Tables(training).places
    return [number for number, key in enumerate(keys) if hashed_id(key) not in places]


def _public(plan: BatchPlan, tables: Tables) -> Batch:
    return Batch(
        tables.mode,
        tuple(tables.banks),
        tuple((table, tables.scoring(table)) for table in tables.plans),
        plan.n_layers,
        tables.metered,
        frozenset(plan.without_set_shares),
        frozenset(plan.without_labels),
    )


def _lacking(
    tables: Tables, training: Records
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What a sealed model lacks before its first batch: (bank, table), and banks."""
    if tables.mode != "sealed":
        return (), ()
    set_shares = tuple(
        (bank, plan.table_id)
        for plan in tables.plans
        for bank in plan.banks
        if not _of_table(plan.table_id, training).has(SetSharesKept, bank, plan.table_id)
    )
    keys = with_keys_in_use(training)
    return set_shares, tuple(bank for bank in tables.banks if not keys.has(LabelSharesKept, bank))


def _lay_out_questions(data: Round, tables: Tables, batch: Records) -> None:
    """A slot for each account asked about."""
    places = tables.places_of(data.keys)
    if len(np.unique(places, axis=0)) < len(places):
        raise OrderError("a record is asked about twice in one round")
    table, place = places.T
    if tables.metered and any(tables.plans[number].broadcast for number in set(table.tolist())):
        raise OrderError("metered: records of unknown holders are not asked about")
    batch.put(Questions(table, place, data.set_of))


def _lay_out_votes(data: ScoringInput, tables: Tables, batch: Records) -> int:
    """A slot in some layer for each side; the number of layers."""
    slots = tables.slots(data)
    batch.put(Codes(data.codes))
    batch.put(slots)
    return padded_layers(int(slots.layer.max(initial=0)) + 1, data.layers_at_once)


# What a sealed model needs before its first batch.


def make_label_request(address: Address, batch: Records) -> LabelRequest:
    """For the label shares of a bank, under the keys in use."""
    return LabelRequest(address, with_keys_in_use(batch.of_epoch(0)).epoch)


def keep_labels(message: EncryptedLabels, batch: Records) -> None:
    """E_j[b] of some leaves."""
    records = with_keys_in_use(batch.of_epoch(0))
    parameters = parameters_of(records)
    ring, here = Ring.of(parameters.share_ring), message.address
    chunks = ScoringPlan(parameters).leaf_chunks()
    size = ring.ciphertext_bytes(ring.parameters.n_data_primes)
    expect(
        len(message.ciphertexts) == len(chunks[here.index])
        and all(len(ciphertext) == size for ciphertext in message.ciphertexts),
        message,
        "wrong number or size of ciphertexts",
    )
    records.put(EncryptedLabelShares(b"".join(message.ciphertexts)), here.sender, here.index)
    if here.index + 1 == len(chunks):
        records.put(LabelSharesKept(), here.sender)


def keep_set_shares_opened(message: SetSharesOpened, batch: Records) -> None:
    """A bank can work with the sets of a table."""
    here = message.address
    _of_table(here.table_id, batch).put(SetSharesKept(), here.sender, here.table_id)


def _of_table(table_id: str, records: Records) -> Records:
    return records.of_epoch(table_epoch(table_id))


# Answers.


def add_answer(message: ScoreReply, batch: Records) -> None:
    """R of some layers, from a bank; of a broadcast table from the aggregator.

    Metered, the bits themselves, from the aggregator.
    """
    here, tables = message.address, Tables(batch.of_epoch(0))
    plan = tables.plan(here.table_id)
    summed = plan.broadcast or tables.metered
    expect(summed == (here.sender == AGGREGATOR), message, "not from the right party")
    scoring = tables.scoring(plan)
    layers = scoring.layer_chunks(plan, batch.get(BatchPlan).n_layers)
    expect(here.index < len(layers), message, "there are not so many layers")
    shape = (len(layers[here.index]), scoring.n_slots(plan))
    t = tables.parameters(plan).plain_modulus
    expect_residues(message, message.residues, shape[0] * shape[1], t)
    residues = message.residues
    if tables.metered:
        seed = batch.get(Permutation, here.table_id, here.index).seed
        batch.delete_at(Permutation, here.table_id, here.index)
        residues = put_back(seed, residues)
    add_to_totals(batch, here, residues.reshape(shape), t)


def keep_stopped(message: MeteringStopped, batch: Records) -> None:
    """The aggregator passes nothing on about a table."""
    tables = Tables(batch.of_epoch(0))
    expect(tables.metered, message, "nothing is metered in this run")
    batch.put(Stopped(message.reason), tables.plan(message.address.table_id).banks[0])


def bits(batch: Records) -> NDArray[np.int8]:
    """The answer to each question of a finished round; slots that asked nothing say 0."""
    stopped = {bank: batch.get(Stopped, bank).reason for (bank,) in batch.places(Stopped)}
    if stopped:
        raise BudgetError("; ".join(f"{bank}: {reason}" for bank, reason in stopped.items()))
    found, wrong = _bits(batch)
    if wrong:
        raise ProtocolError(
            f"table {wrong[0]}: an answer is neither 0 nor 1, or a slot that asked nothing"
            " got one: some party does not follow the protocol, or two parties have one id"
        )
    return found


def bits_so_far(batch: Records) -> NDArray[np.int8] | None:
    """What is known of a round that may not be over: -1 where there is no answer yet.

    None: there is no such round.
    """
    return _bits(batch)[0] if batch.has(Questions) else None


def _bits(batch: Records) -> tuple[NDArray[np.int8], list[str]]:
    """The answers of a round, and the tables that have none, or none that can be right."""
    asked = batch.get(Questions)
    found, wrong = np.full(len(asked.bin), -1, np.int8), []
    tables = Tables(batch.of_epoch(0))
    for number, table_id in enumerate(batch.get(BatchPlan).tables):
        here, totals = asked.table == number, batch.find(Totals, table_id, 0)
        if totals is None and not here.any() and tables.metered and tables.plan(table_id).broadcast:
            continue
        places, total = asked.bin[here], None if totals is None else totals.totals[0]
        # Until all parts of a table have been added, every slot is uniform.
        if total is None or np.delete(total, places).any() or (total[places] > 1).any():
            wrong.append(table_id)
        else:
            found[here] = total[places]
    return found, wrong


def votes(batch: Records) -> NDArray[np.int64]:
    """The vote total of each side of each transaction of a finished batch."""
    plan, slots, training = batch.get(BatchPlan), batch.get(Slots), batch.of_epoch(0)
    forest = stored_forest(training)
    found = np.zeros((plan.n_transactions, forest.sizes.n_sides), np.int64)
    tables = Tables(training)
    for number, table_id in enumerate(plan.tables):
        table = tables.plan(table_id)
        n_chunks = len(tables.scoring(table).layer_chunks(table, plan.n_layers))
        total = np.concatenate([batch.get(Totals, table_id, i).totals for i in range(n_chunks)])
        here = slots.table == number
        found[slots.transaction[here], slots.side[here]] = total[slots.layer[here], slots.bin[here]]
    if found.max(initial=0) > forest.sizes.n_trees:
        raise ProtocolError("a vote total is larger than the number of trees: bad answers")
    return found

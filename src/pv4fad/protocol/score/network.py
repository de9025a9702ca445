"""How the payment network asks the banks about a batch (protocol.md §6, §11).

A batch is one round of questions, one slot for each account of every table; or, for votes of a
sealed model, some layers, where every transaction side that reaches a red group takes one (table,
bin, layer).  Each bank has a chain of messages: what its tables and keys still lack for a sealed
model, then the queries.  All tables get the same number of layers, whoever is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, ProtocolError
from pv4fad.forest.tree import Side
from pv4fad.he.ring import Ring
from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.parameters import table_epoch
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords
from pv4fad.protocol.score.inputs import Round, ScoringInput
from pv4fad.protocol.score.messages import (
    BlindedSetShares,
    EncryptedLabels,
    LabelRequest,
    ScoreQuery,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.plan import ScoringPlan, padded_layers
from pv4fad.protocol.score.queries import NetworkQueries
from pv4fad.protocol.score.tables import Slots, Tables, stored_forest
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.protocol.wire import Address, Message
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Scoring:
    """A batch under way: steps answered by each bank that has begun, sums of A still to come."""

    answered: dict[str, int]
    sums_left: int


@dataclass(frozen=True)
class Scored:
    """All answers of a batch are in."""


@dataclass(frozen=True)
class BatchSize:
    """What everybody can see of a batch."""

    layers: int
    messages: int


class NetworkScoring:
    """The scoring side of the payment network."""

    def __init__(self, pool: WorkerPool, banks_at_once: int) -> None:
        self._banks_at_once = banks_at_once
        self._queries = NetworkQueries(pool)

    # The batch.

    def begin(
        self,
        data: Round | ScoringInput,
        training: RunRecords,
        batch: RunRecords,
        address: Address,
    ) -> Iterable[Message]:
        """Lay out a batch and ask the first banks."""
        tables = Tables(training)
        if isinstance(data, Round) == (tables.mode == "sealed"):
            raise OrderError(f"a model of mode {tables.mode} is not scored in this way")
        if isinstance(data, Round):
            n_layers, what = 1, _lay_out_questions(data, tables, batch)
        else:
            n_layers, what = _lay_out_votes(data, tables, batch)
        steps = {bank: self._plan(bank, tables, n_layers, training) for bank in tables.banks}
        sums = sum(
            len(tables.scoring(plan).layer_chunks(plan, n_layers))
            for plan in tables.plans
            if plan.broadcast
        )
        # Of a broadcast table a bank sends a receipt besides, and the aggregator the sum.
        n_messages = 2 * sum(map(len, steps.values())) + sums * (len(steps) + 1)
        batch.put_json(
            "plan",
            what
            | {
                "tables": [plan.table_id for plan in tables.plans],
                "n_layers": n_layers,
                "n_messages": n_messages,
                "steps": steps,
            },
        )
        begun = list(tables.banks)[: self._banks_at_once]
        batch.put_stage(Scoring(dict.fromkeys(begun, 0), sums))
        return [self._step(bank, 0, training, batch, address) for bank in begun]

    def _plan(
        self, bank: str, tables: Tables, n_layers: int, training: RunRecords
    ) -> list[list[str | int]]:
        """A bank's chain of messages: [kind, table, index]."""
        steps: list[list[str | int]] = []
        mine = [plan for plan in tables.plans if bank in plan.banks]
        if tables.mode == "sealed":
            for plan in mine:
                records = training.of_epoch(table_epoch(plan.table_id))
                if records.find(f"set masks/{bank}/{plan.table_id}/done") is None:
                    steps.append(["sets", plan.table_id, 0])
            key_epoch = training.find_json("key epoch", 0)
            if training.of_epoch(key_epoch).find(f"labels/{bank}/done") is None:
                n_chunks = len(tables.scoring(mine[0]).leaf_chunks())
                steps += [["labels", "", index] for index in range(n_chunks)]
        for plan in mine:
            n_chunks = len(tables.scoring(plan).layer_chunks(plan, n_layers))
            steps += [["query", plan.table_id, index] for index in range(n_chunks)]
        return steps

    def advance(
        self, message: Message, training: RunRecords, batch: RunRecords, stage: Scoring
    ) -> Iterable[Message]:
        """Take an answer, and ask the next thing."""
        steps, sender = batch.get_json("plan")["steps"], message.address.sender
        if sender == AGGREGATOR:
            if not isinstance(message, ScoreReply):
                raise ProtocolError("the aggregator sends sums of answers, and nothing else")
            self._add_answer(message, training, batch)
            self._note(Scoring(stage.answered, stage.sums_left - 1), batch, steps)
            return []
        expect(sender in stage.answered, message, "nothing was asked of it yet")
        number = stage.answered[sender]
        expect(number < len(steps[sender]), message, "nothing was asked")
        self._take(message, steps[sender][number], training, batch)
        answered = stage.answered | {sender: number + 1}
        if number + 1 < len(steps[sender]):
            ask = [sender]
        else:
            ask = [bank for bank in steps if bank not in answered][:1]
            answered |= dict.fromkeys(ask, 0)
        self._note(Scoring(answered, stage.sums_left), batch, steps)
        return [self._step(bank, answered[bank], training, batch, message.address) for bank in ask]

    def _note(self, stage: Scoring, batch: RunRecords, steps: dict[str, list[object]]) -> None:
        done = all(stage.answered.get(bank, -1) == len(chain) for bank, chain in steps.items())
        batch.put_stage(Scored() if done and stage.sums_left == 0 else stage)

    def _step(
        self, bank: str, number: int, training: RunRecords, batch: RunRecords, like: Address
    ) -> Message:
        kind, table_id, index = batch.get_json("plan")["steps"][bank][number]
        address = Address(PAYMENT_NETWORK, bank, like.run_id, table_id, like.epoch, index)
        if kind == "labels":
            return LabelRequest(address, training.find_json("key epoch", 0))
        if kind == "sets":
            return BlindedSetShares(address, self._queries.set_shares(bank, table_id, training))
        return self._query(address, training, batch)

    def _take(
        self, message: Message, step: list[str | int], training: RunRecords, batch: RunRecords
    ) -> None:
        kind, table_id, index = step
        here = message.address
        broadcast = kind == "query" and Tables(training).plan(str(table_id)).broadcast
        wanted: type[Message] = {
            "labels": EncryptedLabels,
            "sets": SetSharesOpened,
            "query": ScoreReply,
        }[str(kind)]
        expect(
            isinstance(message, Receipt if broadcast else wanted)
            and (here.table_id, here.index) == (table_id, index),
            message,
            "not what was asked",
        )
        if isinstance(message, Receipt):
            expect_receipt_of(ScoreQuery, message)
        elif isinstance(message, EncryptedLabels):
            self._keep_labels(message, training)
        elif isinstance(message, ScoreReply):
            self._add_answer(message, training, batch)
        elif isinstance(message, SetSharesOpened):
            records = training.of_epoch(table_epoch(here.table_id))
            records.put(f"set masks/{here.sender}/{here.table_id}/done", b"")

    # Set-up of a sealed model.

    def _keep_labels(self, message: EncryptedLabels, training: RunRecords) -> None:
        records = training.of_epoch(training.find_json("key epoch", 0))
        parameters = records.parameters()
        ring, bank = Ring.of(parameters.share_ring), message.address.sender
        chunks = ScoringPlan(parameters).leaf_chunks()
        leaves = chunks[message.address.index]
        size = ring.ciphertext_bytes(ring.parameters.n_data_primes)
        expect(
            len(message.ciphertexts) == len(leaves)
            and all(len(one) == size for one in message.ciphertexts),
            message,
            "wrong number or size of ciphertexts",
        )
        records.put(f"labels/{bank}/{message.address.index}", b"".join(message.ciphertexts))
        if message.address.index + 1 == len(chunks):
            records.put(f"labels/{bank}/done", b"")

    # Answers.

    def _query(self, address: Address, training: RunRecords, batch: RunRecords) -> ScoreQuery:
        tables = Tables(training)
        t = tables.parameters(tables.plan(address.table_id)).plain_modulus
        query, own_part = self._queries.query(address, training, batch)
        self._add(batch, address.table_id, address.index, own_part, t)
        return query

    def _add_answer(self, message: ScoreReply, training: RunRecords, batch: RunRecords) -> None:
        here = message.address
        tables = Tables(training)
        plan = tables.plan(here.table_id)
        expect(plan.broadcast == (here.sender == AGGREGATOR), message, "not from the right party")
        layers = tables.scoring(plan).layer_chunks(plan, batch.get_json("plan")["n_layers"])
        expect(here.index < len(layers), message, "there are not so many layers")
        shape = (len(layers[here.index]), plan.layout.n_bins)
        t = tables.parameters(plan).plain_modulus
        expect_residues(message, message.residues, shape[0] * shape[1], t)
        self._add(batch, here.table_id, here.index, message.residues.reshape(shape), t)

    def _add(
        self,
        batch: RunRecords,
        table_id: str,
        index: int,
        values: NDArray[np.unsignedinteger],
        t: int,
    ) -> None:
        name = f"totals/{table_id}/{index}"
        before = batch.find_arrays(name)
        total = values.astype(np.uint64) + (0 if before is None else before["totals"])
        batch.put_arrays(name, totals=(total % np.uint64(t)).astype(np.uint32))

    def size(self, batch: RunRecords) -> BatchSize:
        """How large a batch is."""
        plan = batch.get_json("plan")
        return BatchSize(plan["n_layers"], plan["n_messages"])

    def bits(self, training: RunRecords, batch: RunRecords) -> NDArray[np.int8]:
        """The answer to each question of a finished round; slots that asked nothing say 0."""
        bits, wrong = _bits(batch)
        if wrong:
            raise ProtocolError(
                f"table {wrong[0]}: an answer is neither 0 nor 1, or a slot that asked nothing"
                " got one: some bank does not follow the protocol, or two banks have one id"
            )
        return bits

    def votes(self, training: RunRecords, batch: RunRecords) -> NDArray[np.int64]:
        """The vote total of each side of each transaction of a finished batch."""
        plan = batch.get_json("plan")
        slots = Slots(**batch.get_arrays("slots"))
        votes = np.zeros((plan["n_transactions"], len(Side)), np.int64)
        tables = Tables(training)
        for number, table_id in enumerate(plan["tables"]):
            one = tables.plan(table_id)
            n_chunks = len(tables.scoring(one).layer_chunks(one, plan["n_layers"]))
            total = np.concatenate(
                [batch.get_arrays(f"totals/{table_id}/{i}")["totals"] for i in range(n_chunks)]
            )
            mine = slots.table == number
            votes[slots.transaction[mine], slots.side[mine]] = total[
                slots.layer[mine], slots.bin[mine]
            ]
        if votes.max(initial=0) > stored_forest(training).sizes.n_trees:
            raise ProtocolError("a vote total is larger than the number of trees: bad answers")
        return votes

    def unknown_accounts(self, keys: Sequence[AccountKey], training: RunRecords) -> list[int]:
        """The accounts that are in no table yet."""
        places = Tables(training).places
        return [number for number, key in enumerate(keys) if hashed_id(key) not in places]


def bits_so_far(batch: RunRecords) -> NDArray[np.int8]:
    """What is known of a round that may not be over: -1 where there is no answer yet."""
    return _bits(batch)[0]


def _bits(batch: RunRecords) -> tuple[NDArray[np.int8], list[str]]:
    """The answers of a round, and the tables that have none, or none that can be right."""
    plan, asked = batch.get_json("plan"), batch.get_arrays("questions")
    bits, wrong = np.full(len(asked["bin"]), -1, np.int8), []
    for number, table_id in enumerate(plan["tables"]):
        here = asked["table"] == number
        bins, found = asked["bin"][here], batch.find_arrays(f"totals/{table_id}/0")
        total = None if found is None else found["totals"][0]
        # Until all parts of a table have been added, every slot is uniform.
        if total is None or np.delete(total, bins).any() or (total[bins] > 1).any():
            wrong.append(table_id)
        else:
            bits[here] = total[bins]
    return bits, wrong


def _lay_out_questions(data: Round, tables: Tables, batch: RunRecords) -> dict[str, Any]:
    """A slot for each account asked about; what the plan of the batch says of them."""
    places = tables.places_of(data.keys)
    if len(np.unique(places, axis=0)) < len(places):
        raise OrderError("an account is asked about twice in one round")
    table, place = places.T
    batch.put_arrays("questions", table=table, bin=place, set=data.set_of)
    return {"sets": [[list(one.atoms), one.absent] for one in data.sets]}


def _lay_out_votes(
    data: ScoringInput, tables: Tables, batch: RunRecords
) -> tuple[int, dict[str, Any]]:
    """A slot in some layer for each side; the number of layers, and what the plan says."""
    slots = tables.slots(data)
    n_layers = padded_layers(int(slots.layer.max(initial=0)) + 1, data.layers_at_once)
    batch.put_arrays("codes", codes=data.codes)
    batch.put_arrays(
        "slots",
        transaction=slots.transaction,
        side=slots.side,
        table=slots.table,
        bin=slots.bin,
        layer=slots.layer,
    )
    return n_layers, {"n_transactions": len(data.codes)}

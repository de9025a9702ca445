"""How the payment network scores a batch (protocol.md §6): layers, queries, votes.

Every transaction side that reaches a red group takes one (table, bin, layer).  Each bank has a
chain of messages: what its tables and keys still lack for a sealed model, then the queries.  All
tables get the same, padded number of layers, whoever is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ProtocolError
from pv4fad.forest.tree import Side
from pv4fad.forest.votes import vote_parts
from pv4fad.he.keys import PublicKey
from pv4fad.he.pool import WorkerPool
from pv4fad.he.ring import Ring
from pv4fad.parties.party import AGGREGATOR, PAYMENT_NETWORK, RunRecords, expect, expect_residues
from pv4fad.parties.scoring_tables import (
    ScoringInput,
    ShareBlocks,
    Slots,
    Tables,
    layer_content,
    opened_sets,
    stored_forest,
)
from pv4fad.protocol.messages import Receipt
from pv4fad.protocol.parameters import table_epoch
from pv4fad.protocol.score import (
    QueryJob,
    SealedQueryJob,
    SetSharesJob,
    released_queries,
    sealed_queries,
    set_shares,
)
from pv4fad.protocol.scoring_messages import (
    BlindedSetShares,
    EncryptedLabels,
    LabelRequest,
    ScoreQuery,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.scoring_plan import ScoringPlan, padded_layers
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.protocol.wire import Address, Message


@dataclass(frozen=True)
class Scoring:
    """A batch under way: steps answered by each bank that has begun, sums of A still to come."""

    answered: dict[str, int]
    sums_left: int


@dataclass(frozen=True)
class Scored:
    """All votes of a batch are in."""


@dataclass(frozen=True)
class BatchSize:
    """What everybody can see of a batch."""

    layers: int
    messages: int


class NetworkScoring:
    """The scoring side of the payment network."""

    def __init__(self, pool: WorkerPool, banks_at_once: int) -> None:
        self._pool = pool
        self._banks_at_once = banks_at_once
        self._files: Path | None = None

    # The batch.

    def begin(
        self, data: ScoringInput, training: RunRecords, batch: RunRecords, address: Address
    ) -> Iterable[Message]:
        """Lay out a batch and ask the first banks."""
        tables = Tables(training)
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
            {
                "n_transactions": len(data.codes),
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
            self._add_votes(message, training, batch)
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
            return BlindedSetShares(address, self._set_shares(bank, table_id, training))
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
        if isinstance(message, EncryptedLabels):
            self._keep_labels(message, training)
        elif isinstance(message, ScoreReply):
            self._add_votes(message, training, batch)
        elif isinstance(message, SetSharesOpened):
            records = training.of_epoch(table_epoch(here.table_id))
            records.put(f"set masks/{here.sender}/{here.table_id}/done", b"")

    # Set-up of a sealed model.

    def _set_shares(self, bank: str, table_id: str, training: RunRecords) -> tuple[bytes, ...]:
        """E_j[s_c + n_c] for the bank; n_c is kept."""
        records = training.of_epoch(table_epoch(table_id))
        parameters = records.parameters()
        plan = parameters.table(table_id)
        forest = stored_forest(training)
        public = PublicKey(parameters.share_ring, records.get(f"bank/{bank}/public key"))
        flood = parameters.bounds["linear"].flood
        shares = ShareBlocks(parameters, plan, bank, records)
        jobs = (
            SetSharesJob(public, flood, shares.of_block(block), forest.distinct_sets)
            for block in range(ScoringPlan(parameters).n_share_blocks(plan))
        )
        blinded: list[bytes] = []
        for block, made in enumerate(self._pool.map(set_shares, jobs)):
            blinded += made.blinded
            records.put_arrays(f"set masks/{bank}/{table_id}/{block}", n=made.masks)
        return tuple(blinded)

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

    def _label_file(self, bank: str, training: RunRecords, run_id: str) -> Path:
        """E_j[b] of every leaf for the workers: ciphertexts, too large to send with every job."""
        if self._files is None:
            self._files = Path(mkdtemp(prefix="pv4fad-"))
            finalize(self, rmtree, self._files, ignore_errors=True)
        epoch = training.find_json("key epoch", 0)
        path = self._files / f"{run_id}-{epoch}-{bank}"
        if not path.exists():
            records = training.of_epoch(epoch)
            n_chunks = len(ScoringPlan(records.parameters()).leaf_chunks())
            with path.open("wb") as file:
                for index in range(n_chunks):
                    file.write(records.get(f"labels/{bank}/{index}"))
        return path

    # Queries and votes.

    def _query(self, address: Address, training: RunRecords, batch: RunRecords) -> ScoreQuery:
        bank, table_id = address.receiver, address.table_id
        tables = Tables(training)
        plan, records = tables.plan(table_id), training.of_epoch(table_epoch(table_id))
        parameters, scoring = tables.parameters(plan), tables.scoring(plan)
        batch_plan = batch.get_json("plan")
        layers = scoring.layer_chunks(plan, batch_plan["n_layers"])[address.index]
        forest = stored_forest(training)
        content = layer_content(forest, layers, batch_plan["tables"].index(table_id), batch)
        sealed = parameters.mode == "sealed"
        name, values = ("label share", "p") if sealed else ("labels", "labels")
        leaf_values = training.get_arrays(name)[values].astype(np.int64)
        parts = vote_parts(forest, content.reached, leaf_values, parameters.plain_modulus)
        asks_rest = bank == plan.banks[0]
        shape = (len(layers), plan.layout.n_bins)
        rest = np.zeros(shape, np.uint32)
        sets = np.zeros((len(layers), parts.sets.shape[1], plan.layout.n_bins), np.uint32)
        if asks_rest:
            rest[content.layer, content.bin] = parts.rest
        sets[content.layer, :, content.bin] = parts.sets
        opened = opened_sets(forest, parameters, plan, bank, records)
        public = PublicKey(parameters.share_ring, records.get(f"bank/{bank}/public key"))
        flood = parameters.bounds[scoring.flood_circuit].flood
        shares = ShareBlocks(parameters, plan, bank, records)
        reached = None
        if sealed:
            reached = np.full((*shape, forest.sizes.n_trees), -1, np.int32)
            reached[content.layer, content.bin] = content.reached
        degree = parameters.share_ring.degree

        def job(block: int) -> QueryJob:
            part = slice(block * degree, (block + 1) * degree)
            return QueryJob(
                public,
                flood,
                shares.of_block(block),
                forest.distinct_sets,
                opened[:, part],
                rest[:, part],
                sets[:, :, part],
            )

        n_blocks = scoring.n_share_blocks(plan)
        if reached is None:
            results = self._pool.map(released_queries, map(job, range(n_blocks)))
        else:
            label_file = self._label_file(bank, training, address.run_id)
            jobs = (
                SealedQueryJob(
                    job(block),
                    label_file,
                    records.get_arrays(f"set masks/{bank}/{table_id}/{block}")["n"],
                    reached[:, block * degree : (block + 1) * degree],
                    forest.set_index,
                    asks_rest,
                )
                for block in range(n_blocks)
            )
            results = self._pool.map(sealed_queries, jobs)
        ciphertexts: list[bytes] = []
        offsets = []
        for made in results:
            ciphertexts += [one for layer in made.ciphertexts for one in layer]
            offsets.append(made.offsets)
        self._add(
            batch,
            table_id,
            address.index,
            np.concatenate(offsets, axis=1),
            parameters.plain_modulus,
        )
        return ScoreQuery(address, len(layers), tuple(ciphertexts))

    def _add_votes(self, message: ScoreReply, training: RunRecords, batch: RunRecords) -> None:
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
        name = f"votes/{table_id}/{index}"
        before = batch.find_arrays(name)
        total = values.astype(np.uint64) + (0 if before is None else before["votes"])
        batch.put_arrays(name, votes=(total % np.uint64(t)).astype(np.uint32))

    def size(self, batch: RunRecords) -> BatchSize:
        """How large a batch is."""
        plan = batch.get_json("plan")
        return BatchSize(plan["n_layers"], plan["n_messages"])

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
                [batch.get_arrays(f"votes/{table_id}/{i}")["votes"] for i in range(n_chunks)]
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

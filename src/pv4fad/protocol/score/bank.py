"""How a bank answers scoring queries (protocol.md §6): it opens uniform slots, and sends them back.

    BlindedSetShares → v_c opened and kept      LabelRequest → E_j[b]      ScoreQuery → R

It cannot tell which slots are in use, so all it can limit is how many layers it answers for a
table and day: that bounds how often any account can be asked about, without knowing which.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import BudgetError, OrderError
from pv4fad.privacy.days import counted_day, why_ahead
from pv4fad.privacy.delta import upper_bound
from pv4fad.privacy.ledger import charge_delta
from pv4fad.privacy.pairwise import pairwise_mask
from pv4fad.protocol.checks import expect
from pv4fad.protocol.compare.state import BankLabelShare
from pv4fad.protocol.parameters import RunParameters, TablePlan, digest_of, table_epoch
from pv4fad.protocol.propose.state import ANSWERS, MaskSeeds, OwnKeys
from pv4fad.protocol.receipt import receipt_of
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.score.messages import (
    BlindedSetShares,
    EncryptedLabels,
    LabelRequest,
    MeteredReply,
    ScoreQuery,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, SEED_BYTES, Budget, permutation
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.score.state import LayersAnswered, OpenedSets
from pv4fad.protocol.score.steps import (
    LabelsJob,
    OpenSetsJob,
    ReplyJob,
    answer_queries,
    encrypt_label_shares,
    open_sets,
)
from pv4fad.protocol.state import parameters_of, with_keys_of
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool

DEFAULT_LAYERS_PER_DAY = 10_000
_LABEL_BATCH = 32

log = logging.getLogger("pv4fad.bank")


@dataclass(frozen=True)
class BankScoring:
    """The scoring side of a bank."""

    name: str
    pool: WorkerPool
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)
    budget: Budget = DEFAULT_BUDGET

    def answer(
        self, message: BlindedSetShares | LabelRequest | ScoreQuery, training: Records
    ) -> Iterable[Message]:
        """Answer a scoring message of a trained run."""
        match message:
            case BlindedSetShares():
                return self._open_sets(message, training)
            case LabelRequest():
                return self._send_labels(message, training)
            case ScoreQuery():
                return self._score(message, training)

    def is_summed(self, message: ScoreQuery, training: Records) -> bool:
        """Whether the answer goes by way of the aggregator."""
        _, _, plan = self._table(message, training)
        return plan.broadcast or parameters_of(training).metered

    def _open_sets(self, message: BlindedSetShares, training: Records) -> Iterable[Message]:
        records, parameters, plan = self._table(message, training)
        expect(parameters.mode == "sealed", message, "a released model needs no set shares")
        n_sets, n_blocks = parameters.sizes.n_distinct_sets, _n_blocks(parameters, plan)
        expect(
            len(message.ciphertexts) == n_sets * n_blocks, message, "wrong number of ciphertexts"
        )
        self._charge(message, parameters, "linear", training)
        secret = with_keys_of(records).get(OwnKeys).secret_key(parameters.share_ring)
        jobs = (
            OpenSetsJob(secret, message.ciphertexts[i * n_sets : (i + 1) * n_sets])
            for i in range(n_blocks)
        )
        opened = list(self.pool.map(open_sets, jobs))
        records.put(OpenedSets(np.stack(opened)), plan.table_id)
        return [SetSharesOpened(message.address.answer())]

    def _send_labels(self, message: LabelRequest, training: Records) -> Iterable[Message]:
        records = training.of_epoch(message.key_epoch)
        parameters = parameters_of(records)
        expect(parameters.mode == "sealed", message, "a released model has no label shares")
        chunks = ScoringPlan(parameters).leaf_chunks()
        expect(message.address.index < len(chunks), message, "there are not so many leaves")
        leaves = chunks[message.address.index]
        shares = training.get(BankLabelShare).b[leaves.start : leaves.stop]
        secret = with_keys_of(records).get(OwnKeys).secret_key(parameters.share_ring)
        jobs = (
            LabelsJob(secret, shares[i : i + _LABEL_BATCH])
            for i in range(0, len(shares), _LABEL_BATCH)
        )
        encrypted = self.pool.map(encrypt_label_shares, jobs)
        ciphertexts = tuple(share for batch in encrypted for share in batch)
        return [EncryptedLabels(message.address.answer(), ciphertexts)]

    def _score(self, message: ScoreQuery, training: Records) -> Iterable[Message]:
        """R = Z − Σ_c y_c·v_c in every slot of every layer."""
        records, parameters, plan = self._table(message, training)
        scoring, n_blocks = ScoringPlan(parameters), _n_blocks(parameters, plan)
        per_slot, n_layers = scoring.queries_per_slot, message.n_layers
        expect(n_layers >= 1, message, "no layers")
        expect(
            len(message.ciphertexts) == n_blocks * n_layers * per_slot,
            message,
            "wrong number of ciphertexts",
        )
        self._count_layers(message, plan, training)
        self._charge(message, parameters, scoring.flood_circuit, training)
        secret = with_keys_of(records).get(OwnKeys).secret_key(parameters.share_ring)
        opened: NDArray[np.uint32] = np.zeros((n_blocks, 0, 0), np.uint32)
        if parameters.mode == "sealed":
            stored = records.find(OpenedSets, plan.table_id)
            if stored is None:
                raise OrderError(f"table {plan.table_id}: the shares of its sets come first")
            opened = stored.v
        queries = [
            tuple(
                message.ciphertexts[start : start + per_slot]
                for start in range(
                    block * n_layers * per_slot, (block + 1) * n_layers * per_slot, per_slot
                )
            )
            for block in range(n_blocks)
        ]
        jobs = (ReplyJob(secret, queries[i], opened[i]) for i in range(n_blocks))
        replies = np.concatenate(list(self.pool.map(answer_queries, jobs)), axis=1)
        residues = replies.ravel()
        metered = parameters_of(training).metered  # whatever a further match may say
        expect(bool(message.permutation) == metered, message, "is not as the run is metered")
        if metered:
            return self._to_meter(message, plan, residues)
        if not plan.broadcast:
            return [ScoreReply(message.address.answer(), residues)]
        # No party may see which bank answered about a broadcast table: only the sum leaves.
        here = message.address
        seeds, t = training.get(MaskSeeds, ANSWERS).by_bank(), parameters.plain_modulus
        # Banks that were told different parameters mask differently, and their sum is noise.
        context = f"score {message_id(message).rsplit('/', 1)[0]} ".encode() + digest_of(parameters)
        mask = pairwise_mask(self.name, seeds, context, modulus=t, n=len(residues))
        masked = ScoreReply(
            here.onward(AGGREGATOR, here.table_id, here.index),
            ((residues + mask) % np.uint64(t)).astype(np.uint32),
        )
        return [masked, receipt_of(message)]

    def _to_meter(
        self, message: ScoreQuery, plan: TablePlan, residues: NDArray[np.uint32]
    ) -> list[Message]:
        """R goes to the aggregator, in an order that it cannot undo."""
        here, seed = message.address, message.permutation
        expect(not plan.broadcast, message, "metered: a broadcast table is not asked about")
        expect(len(seed) == SEED_BYTES, message, "the seed of the permutation has a wrong length")
        permuted = residues[permutation(seed, len(residues))]
        onward = here.onward(AGGREGATOR, here.table_id, here.index)
        reply = MeteredReply(onward, self.budget.positives_per_day, self.budget.release, permuted)
        return [reply, receipt_of(message)]

    def _charge(
        self,
        message: BlindedSetShares | ScoreQuery,
        parameters: RunParameters,
        circuit: str,
        training: Records,
    ) -> None:
        """The distance from uniform of all ciphertexts of a message."""
        term = log2(len(message.ciphertexts)) - parameters.bounds[circuit].distance_bits
        charge_delta(training.tx, "scoring", upper_bound([term]), self.now())

    def _count_layers(self, message: ScoreQuery, plan: TablePlan, training: Records) -> None:
        # One count for all routed tables of all runs, and one for all broadcast ones: an account
        # can be in any of them, and the payment network names and multiplies tables as it likes.
        kind = "broadcast" if plan.broadcast else "routed"
        noted = training.find(LayersAnswered, kind) or LayersAnswered("", 0)
        today = self.now().date().isoformat()
        day, ahead = counted_day(today, noted.day), why_ahead(today, noted.day)
        if ahead:
            log.warning("%s, %s table: the count is ahead of the clock%s", self.name, kind, ahead)
        answered = noted.layers if day == noted.day else 0
        if answered + message.n_layers > self.layers_per_day:
            raise BudgetError(
                f"{self.name} answers at most {self.layers_per_day} layers per table and day; of "
                f"its {kind} table it has answered {answered}, and is asked for "
                f"{message.n_layers} more: go on tomorrow (UTC), or have this limit raised{ahead}"
            )
        total = answered + message.n_layers
        training.put(LayersAnswered(day, total), kind)
        log.info("%s, %s table: %d layers answered today", self.name, kind, total)

    def _table(
        self, message: Message, training: Records
    ) -> tuple[Records, RunParameters, TablePlan]:
        """The match that a table belongs to."""
        epoch = table_epoch(message.address.table_id)
        records = training.of_epoch(epoch)
        parameters = parameters_of(records)
        plan = parameters.table(message.address.table_id)
        expect(self.name in plan.banks, message, "not a table of this party")
        return records, parameters, plan


def _n_blocks(parameters: RunParameters, plan: TablePlan) -> int:
    return ScoringPlan(parameters).n_share_blocks(plan)

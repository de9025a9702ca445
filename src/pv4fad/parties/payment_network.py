"""The payment network: its transactions teach the trees, its keys hide its accounts (protocol.md).

Holds labelled transactions and its HE key.  What it opens in training is uniform, up to what
training is for: the noisy counts, or labels and shares of labels in the paper's model.

It leads the run: keys, then one chain of messages per bank (`network_chains`), with the paper's
model the comparison; later batches of questions, and further matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.parties.epochs import forget_messages
from pv4fad.parties.network_chains import NetworkChains, Proposing
from pv4fad.parties.network_epochs import (
    acknowledge_sent,
    close_epoch,
    epoch_under_way,
    forget_all_but,
    is_over,
    last_epoch,
    new_epoch,
    note_sent,
)
from pv4fad.parties.network_stages import (
    Comparing,
    Matched,
    NetworkStage,
    Proposed,
    Revealing,
    Running,
    Scored,
    Scoring,
    Settling,
    Stage,
    Trained,
    stage_of,
)
from pv4fad.parties.party import Party
from pv4fad.protocol.checks import expect, out_of_order
from pv4fad.protocol.compare.messages import BlindedSums, LabelMasks, SharedLabels
from pv4fad.protocol.compare.network import (
    keep_label_block,
    keep_label_share,
    keep_masked_leaves,
    make_digits,
    reveal_labels,
)
from pv4fad.protocol.compare.state import Labels
from pv4fad.protocol.count.messages import NoisyCounts
from pv4fad.protocol.count.network import keep_counts
from pv4fad.protocol.count.state import ReleasedCounts
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    TablesInForce,
)
from pv4fad.protocol.match.network import put_in_force
from pv4fad.protocol.match.state import MatchesInForce, MatchKind
from pv4fad.protocol.notify.messages import Notify
from pv4fad.protocol.order import receivers_of
from pv4fad.protocol.parameters import RunParameters, table_epoch
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.propose.messages import BankKeys
from pv4fad.protocol.propose.network import keep_input, keep_proposal
from pv4fad.protocol.propose.ring_keys import keep_new_keys
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.inputs import Round, ScoringInput
from pv4fad.protocol.score.messages import (
    EncryptedLabels,
    MeteringStopped,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.network import (
    BatchSize,
    add_answer,
    batch_of,
    bits,
    keep_stopped,
    lay_out,
    n_sums,
    size_of,
    unknown_accounts,
    votes,
)
from pv4fad.protocol.score.tables import Tables
from pv4fad.protocol.state import KeysOf, parameters_of, with_keys_in_use
from pv4fad.protocol.tables import AccountKey, TableAccounts
from pv4fad.protocol.wire import Address, Message, encode, kind_in_id
from pv4fad.store.records import Records
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool


class PaymentNetwork(Party):
    """S of the protocol."""

    def __init__(self, store: Store, pool: WorkerPool, banks_at_once: int = 1) -> None:
        super().__init__(PAYMENT_NETWORK, store, pool)
        self._chains = NetworkChains(pool, banks_at_once)

    # Training and further matches.

    def propose(self, parameters: RunParameters, data: TrainingInput) -> list[bytes]:
        """Begin a run: everything it needs goes into the store, the proposal to all others."""
        with self.store.transaction() as tx:
            run = Records(tx, parameters.run_id)
            if stage_of(run) is not None:
                raise OrderError(
                    f"run {parameters.run_id} exists already; run ids are never reused"
                )
            keep_new_keys(parameters, run)
            keep_input(data, parameters, run)
            return self._propose(parameters, data.tables, run)

    def match(
        self,
        parameters: RunParameters,
        tables: Mapping[str, TableAccounts],
        *,
        replace: bool,
    ) -> list[bytes]:
        """A further match for a trained model.

        `replace` makes the join anew, with new keys everywhere, because bank records or keys have
        changed.  Otherwise its tables ('delta') follow those of the last such match, or of
        training, and take the place of any delta since: they hold all accounts met since then.
        """
        with self.store.transaction() as tx:
            training = self._trained(tx, parameters.run_id)
            run = training.of_epoch(new_epoch(training))
            if any(table_epoch(plan.table_id) != run.epoch for plan in parameters.tables):
                raise OrderError(f"the tables of match {run.epoch} must be named for it")
            if replace:
                keep_new_keys(parameters, run)
            else:
                run.put(KeysOf(with_keys_in_use(training).epoch))
            run.put(MatchKind(replace))
            return self._propose(parameters, tables, run)

    def _propose(
        self, parameters: RunParameters, tables: Mapping[str, TableAccounts], run: Records
    ) -> list[bytes]:
        self._chains.forget_begun()  # of a training that was given up
        keep_proposal(parameters, tables, run)
        begun, proposals = self._chains.begin(Proposing(parameters), run)
        return self._begin(Proposed(begun), proposals, run)

    def next_epoch(self, run_id: str) -> int:
        """The number that the next match or batch of a run will have."""
        with self.store.transaction() as tx:
            return last_epoch(Records(tx, run_id)) + 1

    def epoch_under_way(self, run_id: str) -> int | None:
        """The match or batch that is not over yet, if there is one."""
        with self.store.transaction() as tx:
            return epoch_under_way(Records(tx, run_id))

    def close(self, run_id: str, epoch: int) -> None:
        """Forget a batch whose answers have been taken, or give up a match or batch under way.

        A match that all banks have completed cannot be given up any more.
        """
        self._chains.forget_begun()  # in case that a match is given up; other work is done anew
        with self.store.transaction() as tx:
            close_epoch(Records(tx, run_id), epoch)

    def counts(self, run_id: str) -> NDArray[np.int64]:
        """The noisy counts of a trained run, (cells, sets)."""
        with self.store.transaction() as tx:
            return self._trained(tx, run_id).get(ReleasedCounts).counts

    def labels(self, run_id: str) -> NDArray[np.int8]:
        """Released mode: the noisy label of each leaf of a trained run."""
        with self.store.transaction() as tx:
            return self._trained(tx, run_id).get(Labels).labels

    def matched_accounts(self, run_id: str) -> list[list[AccountKey]]:
        """The accounts of each match in force: first of the one that holds all, then the delta."""
        with self.store.transaction() as tx:
            return Tables(Records(tx, run_id)).accounts()

    def matches(self, run_id: str) -> list[int]:
        """The matches in force: the one that holds all accounts, then the delta, if any."""
        with self.store.transaction() as tx:
            return list(Records(tx, run_id).get(MatchesInForce).epochs)

    # Batches.

    def score(self, run_id: str, data: Round | ScoringInput) -> tuple[int, list[bytes]]:
        """Begin a batch, a round of questions or votes: its number, and the first queries."""
        with self.store.transaction() as tx:
            training = self._trained(tx, run_id)
            batch = training.of_epoch(new_epoch(training))
            public = lay_out(data, batch)
            answered, queries = self._chains.begin(public, batch)
            stage = Scoring(answered, n_sums(public))
            return batch.epoch, self._begin(stage, queries, batch)

    def batch_size(self, run_id: str, batch: int) -> BatchSize:
        """How large a batch is that is under way or scored."""
        with self.store.transaction() as tx:
            return size_of(Records(tx, run_id, batch))

    def is_scored(self, run_id: str, batch: int) -> bool:
        """Whether the answers of a batch are there to be taken."""
        with self.store.transaction() as tx:
            return isinstance(stage_of(Records(tx, run_id, batch)), Scored)

    def bits(self, run_id: str, batch: int) -> NDArray[np.int8]:
        """The answer to each question of a round."""
        with self.store.transaction() as tx:
            return bits(self._scored(tx, run_id, batch))

    def votes(self, run_id: str, batch: int) -> NDArray[np.int64]:
        """The vote total of each side of each transaction of a batch, (transactions, sides)."""
        with self.store.transaction() as tx:
            return votes(self._scored(tx, run_id, batch))

    def unknown_accounts(self, run_id: str, keys: Sequence[AccountKey]) -> list[int]:
        """The accounts that a further match has to bring in before they can be scored."""
        with self.store.transaction() as tx:
            return unknown_accounts(keys, Records(tx, run_id))

    def _trained(self, tx: Transaction, run_id: str) -> Records:
        training = Records(tx, run_id)
        if not isinstance(stage_of(training), Trained):
            raise OrderError("this run has no model yet")
        return training

    def _scored(self, tx: Transaction, run_id: str, batch: int) -> Records:
        records = Records(tx, run_id, batch)
        if not isinstance(stage_of(records), Scored):
            raise OrderError(f"batch {batch} of run {run_id} is not scored yet")
        return records

    def _begin(self, stage: Stage, messages: Iterable[Message], run: Records) -> list[bytes]:
        """The first messages of a run, a match or a batch; they are sent again after a crash."""
        encoded = [encode(message) for message in messages]
        run.put(NetworkStage(stage))
        run.tx.record_reply(_beginning(run, stage), b"", encoded)
        return encoded

    # Messages.

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        run = Records(tx, message.address.run_id, message.address.epoch)
        messages = list(self._next(message, run))
        note_sent(run, message, messages)
        return messages

    def _next(self, message: Message, run: Records) -> Iterable[Message]:
        """What to send after a message."""
        if run.epoch > 0 and is_over(run.of_epoch(0), run.epoch):
            return []  # sent again by someone who cannot know that it had arrived
        if isinstance(message, Receipt) and kind_in_id(message.of) == Notify.kind:
            return []  # whoever sends notices keeps account of them
        match stage_of(run), message:
            case Proposed(answered), BankKeys() | Receipt():
                return self._admit(message, run, answered)
            case (
                Running(answered),
                MaskedValues()
                | MaskedDistances()
                | MaskedDifferences()
                | BlindedIndicators()
                | Receipt(),
            ):
                return self._advance(message, run, answered)
            case Running(answered), NoisyCounts() | BlindedSums():
                acknowledge_sent(run, message)
                all_sent = self._chains.are_sent(parameters_of(run), answered)
                expect(all_sent, message, "not all sums have been sent")
                return self._take_sums(message, run)
            case Comparing(done), SharedLabels():
                acknowledge_sent(run, message)
                return self._take_labels(message, run, done)
            case Revealing(), LabelMasks():
                reveal_labels(message, run)
                run.put(NetworkStage(Trained()))
                return []
            case Comparing() | Revealing() | Trained(), Receipt():
                self._chains.expect_last_answer(parameters_of(run), message)
                return []
            case Settling(answered), Receipt():
                return self._settle(message, run, answered)
            case (
                Scoring() as stage,
                ScoreReply()
                | MeteringStopped()
                | EncryptedLabels()
                | SetSharesOpened()
                | Receipt(),
            ):
                return self._take_answer(message, run, stage)
            case stage, _:
                raise out_of_order(message, stage)

    def _admit(
        self, message: BankKeys | Receipt, run: Records, answered: Mapping[str, int]
    ) -> Iterable[Message]:
        """An answer to a proposal; after the last one the chains begin."""
        parameters = parameters_of(run)
        proposing = Proposing(parameters)
        after, messages = self._chains.advance(proposing, message, answered, run)
        acknowledge_sent(run, message)
        if not self._chains.are_complete(proposing, after):
            run.put(NetworkStage(Proposed(after)))
            return messages
        run.tx.acknowledge(_beginning(run, Proposed(after)))
        begun, messages = self._chains.begin(parameters, run)
        run.put(NetworkStage(Running(begun)))
        return messages

    def _advance(
        self, message: Message, run: Records, answered: Mapping[str, int]
    ) -> Iterable[Message]:
        """An answer in the chain of a bank, in training or a further match."""
        parameters = parameters_of(run)
        after, messages = self._chains.advance(parameters, message, answered, run)
        acknowledge_sent(run, message)
        ends_match = parameters.purpose == "matching" and not messages
        if ends_match and self._chains.are_complete(parameters, after):
            return self._put_in_force(message.address, run)
        run.put(NetworkStage(Running(after)))
        return messages

    def _take_sums(self, message: NoisyCounts | BlindedSums, run: Records) -> Iterable[Message]:
        """The sum over all banks: the noisy counts, or what the comparison begins with."""
        counts = parameters_of(run).mode == "counts"
        expect(counts == isinstance(message, NoisyCounts), message, "not of this model")
        if isinstance(message, NoisyCounts):
            keep_counts(message, run)
            run.put(NetworkStage(Trained()))
            return []
        keep_masked_leaves(message, run)
        run.put(NetworkStage(Comparing(0)))
        return [make_digits(0, run, self.pool)]

    def _take_labels(self, message: SharedLabels, run: Records, done: int) -> Iterable[Message]:
        """The share of one block of labels; the digits of the next block, if there is one."""
        keep_label_block(message, done, run, self.pool)
        parameters = parameters_of(run)
        if done + 1 < parameters.n_leaf_blocks:
            run.put(NetworkStage(Comparing(done + 1)))
            return [make_digits(done + 1, run, self.pool)]
        keep_label_share(run)
        run.put(NetworkStage(Trained() if parameters.mode == "sealed" else Revealing()))
        return []

    def _put_in_force(self, like: Address, run: Records) -> list[Message]:
        """The tables of a complete match are now the ones to score with; all banks are told."""
        in_force = put_in_force(run)
        forget_all_but(in_force, run.of_epoch(0))
        run.put(NetworkStage(Settling(())))
        receivers = receivers_of(parameters_of(run), TablesInForce)
        return [TablesInForce(like.onward(bank), in_force) for bank in receivers]

    def _settle(
        self, message: Receipt, run: Records, answered: tuple[str, ...]
    ) -> Iterable[Message]:
        bank, banks = message.address.sender, parameters_of(run).banks
        expect(bank in banks and bank not in answered, message, "nothing was told to it")
        expect_receipt_of(TablesInForce, message)
        answered = (*answered, bank)
        if len(answered) < len(banks):
            run.put(NetworkStage(Settling(answered)))
        else:
            run.put(NetworkStage(Matched()))
            forget_messages(run.run_id, run.epoch, run.tx)
        return []

    def _take_answer(self, message: Message, batch: Records, stage: Scoring) -> Iterable[Message]:
        """An answer in the chain of a bank, or the aggregator's sum of such answers."""
        public = batch_of(batch)
        after, sums_left = stage.answered, stage.sums_left
        messages: list[Message] = []
        if message.address.sender != AGGREGATOR:
            acknowledge_sent(batch, message)
            after, messages = self._chains.advance(public, message, stage.answered, batch)
        elif isinstance(message, ScoreReply):
            add_answer(message, batch)
            sums_left -= 1
        elif isinstance(message, MeteringStopped):
            keep_stopped(message, batch)
            sums_left -= 1
        else:
            raise out_of_order(message, stage)
        if sums_left == 0 and not messages and self._chains.are_complete(public, after):
            batch.put(NetworkStage(Scored()))
            forget_messages(batch.run_id, batch.epoch, batch.tx)
        else:
            batch.put(NetworkStage(Scoring(after, sums_left)))
        return messages


def _beginning(run: Records, stage: Stage) -> str:
    """The name under which the first messages wait for their answers."""
    what = "propose" if isinstance(stage, Proposed) else "score"
    return f"{run.run_id}/{what}/{run.epoch}"

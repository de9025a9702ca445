"""The payment network: its transactions teach the trees, its keys hide its accounts (protocol.md).

Holds labelled transactions and its HE key.  What it opens in training is uniform, up to what
training is for: the noisy counts, or labels and shares of labels in the paper's model.

It leads the run: keys, one chain of messages per bank (`network_chains`), of the paper's model the
comparison (`network_compare`); later questions (`network_scoring`), and further matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.forest.forest_file import to_document
from pv4fad.he.keys import KeyPair, PublicKey, SecretKey, generate_keys
from pv4fad.parties.epochs import forget_messages
from pv4fad.parties.network_chains import BankChains
from pv4fad.parties.network_epochs import (
    close_epoch,
    epoch_under_way,
    is_over,
    last_epoch,
    new_epoch,
    put_in_force,
)
from pv4fad.parties.party import Accepts, Party
from pv4fad.protocol.checks import expect, out_of_order
from pv4fad.protocol.compare.messages import BlindedSums, LabelMasks, SharedLabels
from pv4fad.protocol.compare.network import begin_comparison, keep_label_share, reveal_labels
from pv4fad.protocol.count.messages import NoisyCounts
from pv4fad.protocol.count.network import keep_counts
from pv4fad.protocol.identity import PublicIdentity
from pv4fad.protocol.match.messages import BlindedIndicators, TablesInForce
from pv4fad.protocol.match.network import place_accounts
from pv4fad.protocol.network_stages import (
    Comparing,
    Matched,
    Proposed,
    Revealing,
    Running,
    Settling,
    Trained,
)
from pv4fad.protocol.parameters import RunParameters, table_epoch
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.propose.messages import BankKeys, RunProposal
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords, acknowledge_previous, stages
from pv4fad.protocol.score.inputs import Round, ScoringInput
from pv4fad.protocol.score.messages import EncryptedLabels, ScoreReply, SetSharesOpened
from pv4fad.protocol.score.network import BatchSize, NetworkScoring, Scored, Scoring
from pv4fad.protocol.score.tables import Tables
from pv4fad.protocol.tables import AccountKey, TableAccounts
from pv4fad.protocol.wire import Address, Message, encode
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

_STAGES = stages(
    Proposed, Running, Settling, Matched, Comparing, Revealing, Trained, Scoring, Scored
)


class PaymentNetwork(Party):
    """S of the protocol."""

    accepts: ClassVar[Accepts] = {
        BankKeys: (BANK,),
        Receipt: (BANK, AGGREGATOR),
        BlindedIndicators: (BANK,),
        NoisyCounts: (AGGREGATOR,),
        BlindedSums: (AGGREGATOR,),
        SharedLabels: (AGGREGATOR,),
        LabelMasks: (AGGREGATOR,),
        SetSharesOpened: (BANK,),
        EncryptedLabels: (BANK,),
        ScoreReply: (BANK, AGGREGATOR),
    }

    def __init__(self, store: Store, pool: WorkerPool, banks_at_once: int = 1) -> None:
        super().__init__(PAYMENT_NETWORK, store, pool)
        self._chains = BankChains(pool, banks_at_once)
        self._scoring = NetworkScoring(pool, banks_at_once)

    def propose(self, parameters: RunParameters, data: TrainingInput) -> list[bytes]:
        """Begin a run: everything it needs goes into the store, the proposal to all others."""
        with self.store.transaction() as tx:
            run = RunRecords(tx, parameters.run_id)
            if run.stage(_STAGES) is not None:
                raise OrderError(
                    f"run {parameters.run_id} exists already; run ids are never reused"
                )
            keys = generate_keys(parameters.match_ring, relinearisation=True)
            counts = data.counts
            run.put_json("sets", data.sets)
            if data.trees is not None:
                run.put_json("forest", to_document(data.trees.forest))
                run.put_arrays("green labels", labels=data.trees.green_labels)
            run.put_arrays(
                "counts",
                start=counts.start,
                key=counts.key,
                weight=counts.weight,
                n_path=counts.n_path,
            )
            shape = (parameters.sizes.n_groups, parameters.sizes.n_sets)
            run.put_arrays("sums", p=np.zeros(shape, np.uint64))
            run.put_json("matches", [0])
            return self._propose_match(parameters, keys, data.tables, 0, tx)

    def rematch(
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
            training = RunRecords(tx, parameters.run_id)
            self._require_model(training)
            epoch = new_epoch(training)
            if any(table_epoch(plan.table_id) != epoch for plan in parameters.tables):
                raise OrderError(f"the tables of match {epoch} must be named for it")
            if replace:
                keys = generate_keys(parameters.match_ring, relinearisation=True)
            else:
                before = training.of_epoch(training.find_json("key epoch", 0))
                keys = KeyPair(
                    SecretKey(parameters.match_ring, before.get("secret key")),
                    PublicKey(
                        parameters.match_ring,
                        before.get("public key"),
                        before.get("relinearisation key"),
                    ),
                )
            training.of_epoch(epoch).put_json("replaces", replace)
            return self._propose_match(parameters, keys, tables, epoch, tx)

    def next_epoch(self, run_id: str) -> int:
        """The number that the next match or batch of a run will have."""
        with self.store.transaction() as tx:
            return last_epoch(RunRecords(tx, run_id)) + 1

    def epoch_under_way(self, run_id: str) -> int | None:
        """The match or batch that is not over yet, if there is one."""
        with self.store.transaction() as tx:
            return epoch_under_way(RunRecords(tx, run_id))

    def close(self, run_id: str, epoch: int) -> None:
        """Forget a batch whose answers have been taken, or give up a match or batch under way.

        A match that all banks have completed cannot be given up any more.
        """
        with self.store.transaction() as tx:
            close_epoch(run_id, epoch, tx)

    def score(self, run_id: str, data: Round | ScoringInput) -> tuple[int, list[bytes]]:
        """Begin a batch, a round of questions or votes: its number, and the first queries."""
        with self.store.transaction() as tx:
            training = RunRecords(tx, run_id)
            self._require_model(training)
            epoch = new_epoch(training)
            address = Address(self.name, self.name, run_id, "", epoch)
            messages = self._scoring.begin(data, training, training.of_epoch(epoch), address)
            queries = [encode(one) for one in messages]
            tx.record_reply(f"{run_id}/score/{epoch}", b"", queries)
        return epoch, queries

    def batch_size(self, run_id: str, batch: int) -> BatchSize:
        """How large a batch is that is under way or scored."""
        with self.store.transaction() as tx:
            return self._scoring.size(RunRecords(tx, run_id, batch))

    def is_scored(self, run_id: str, batch: int) -> bool:
        """Whether the answers of a batch are there to be taken."""
        with self.store.transaction() as tx:
            return isinstance(RunRecords(tx, run_id, batch).stage(_STAGES), Scored)

    def bits(self, run_id: str, batch: int) -> NDArray[np.int8]:
        """The answer to each question of a round."""
        with self.store.transaction() as tx:
            return self._scoring.bits(RunRecords(tx, run_id), self._scored(tx, run_id, batch))

    def votes(self, run_id: str, batch: int) -> NDArray[np.int64]:
        """The vote total of each side of each transaction of a batch, (transactions, 2)."""
        with self.store.transaction() as tx:
            return self._scoring.votes(RunRecords(tx, run_id), self._scored(tx, run_id, batch))

    def counts(self, run_id: str) -> NDArray[np.int64]:
        """The noisy counts of a trained run, (cells, sets)."""
        with self.store.transaction() as tx:
            training = RunRecords(tx, run_id)
            self._require_model(training)
            return training.get_arrays("noisy counts")["counts"]

    def unknown_accounts(self, run_id: str, keys: Sequence[AccountKey]) -> list[int]:
        """The accounts that a further match has to bring in before they can be scored."""
        with self.store.transaction() as tx:
            return self._scoring.unknown_accounts(keys, RunRecords(tx, run_id))

    def matched_accounts(self, run_id: str) -> list[list[AccountKey]]:
        """The accounts of each match in force: first of the one that holds all, then the delta."""
        with self.store.transaction() as tx:
            return Tables(RunRecords(tx, run_id)).accounts()

    def matches(self, run_id: str) -> list[int]:
        """The matches in force: the one that holds all accounts, then the delta, if any."""
        with self.store.transaction() as tx:
            return list(RunRecords(tx, run_id).get_json("matches"))

    def _scored(self, tx: Transaction, run_id: str, batch: int) -> RunRecords:
        records = RunRecords(tx, run_id, batch)
        if not isinstance(records.stage(_STAGES), Scored):
            raise OrderError(f"batch {batch} of run {run_id} is not scored yet")
        return records

    def _require_model(self, training: RunRecords) -> None:
        if not isinstance(training.stage(_STAGES), Trained):
            raise OrderError("this run has no model yet")

    def _propose_match(
        self,
        parameters: RunParameters,
        keys: KeyPair,
        tables: Mapping[str, TableAccounts],
        epoch: int,
        tx: Transaction,
    ) -> list[bytes]:
        run = RunRecords(tx, parameters.run_id, epoch)
        text = parameters.model_dump_json().encode()
        run.put("parameters", text)
        run.put("secret key", keys.secret.data)
        run.put("public key", keys.public.data)
        run.put("relinearisation key", keys.public.relinearisation or b"")
        for plan in parameters.tables:
            place_accounts(parameters, plan, tables[plan.table_id], run)
        run.put_stage(Proposed([]))
        address = Address(self.name, self.name, parameters.run_id, "", epoch)
        proposals = [
            encode(
                RunProposal(
                    self._address(receiver, address),
                    text,
                    keys.public.data,
                    keys.public.relinearisation or b"",
                )
            )
            for receiver in self._partners(parameters)
        ]
        tx.record_reply(_proposing(address), b"", proposals)
        return proposals

    def _partners(self, parameters: RunParameters) -> list[str]:
        """Who is proposed a match: the aggregator knows the run from training."""
        others = [AGGREGATOR] if parameters.purpose == "training" else []
        return [*others, *parameters.banks]

    def _put_in_force(
        self, parameters: RunParameters, like: Address, run: RunRecords
    ) -> list[Message]:
        """The tables of a complete match are now the ones to score with; the banks are told."""
        epochs = put_in_force(run.of_epoch(0), like.epoch, replaces=run.get_json("replaces"))
        run.put_stage(Settling([]))
        return [
            TablesInForce(self._address(bank, like), tuple(epochs)) for bank in parameters.banks
        ]

    def _settle(
        self, message: Receipt, run: RunRecords, answered: list[str], tx: Transaction
    ) -> Iterable[Message]:
        bank, banks = message.address.sender, run.parameters().banks
        expect(bank in banks and bank not in answered, message, "nothing was told to it")
        expect_receipt_of(TablesInForce, message)
        answered = [*answered, bank]
        if len(answered) < len(banks):
            run.put_stage(Settling(answered))
        else:
            run.put_stage(Matched())
            forget_messages(message.address.run_id, message.address.epoch, tx)
        return []

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        epoch = message.address.epoch
        run = RunRecords(tx, message.address.run_id, epoch)
        if epoch > 0 and is_over(run.of_epoch(0), epoch):
            return []  # sent again by someone who cannot know that it had arrived
        match run.stage(_STAGES), message:
            case Proposed(answered), BankKeys() | Receipt():
                return self._admit(message, run, answered, tx)
            case Running(answered), BlindedIndicators() | Receipt():
                return self._advance(message, run, answered, tx)
            case Running(answered), NoisyCounts() | BlindedSums():
                acknowledge_previous(run, tx, AGGREGATOR, message)
                all_sent = self._chains.all_sent(run.parameters(), answered)
                expect(all_sent, message, "not all sums have been sent")
                return self._take_sums(message, run)
            case Comparing(done), SharedLabels():
                acknowledge_previous(run, tx, AGGREGATOR, message)
                return keep_label_share(message, done, run, self.pool)
            case (
                Scoring() as stage,
                ScoreReply() | EncryptedLabels() | SetSharesOpened() | Receipt(),
            ):
                if message.address.sender != AGGREGATOR:
                    acknowledge_previous(run, tx, message.address.sender, message)
                queries = list(self._scoring.advance(message, run.of_epoch(0), run, stage))
                if is_over(run.of_epoch(0), epoch):
                    forget_messages(message.address.run_id, epoch, tx)
                return queries
            case Settling(answered), Receipt():
                return self._settle(message, run, answered, tx)
            case Revealing(), LabelMasks():
                reveal_labels(message, run)
                return []
            case Comparing() | Revealing() | Trained(), Receipt():
                self._chains.take_late_receipt(message, run)
                return []
            case stage, _:
                raise out_of_order(message, stage)

    def _take_sums(self, message: NoisyCounts | BlindedSums, run: RunRecords) -> Iterable[Message]:
        """The sum over all banks: the noisy counts, or what the comparison begins with."""
        counts = run.parameters().mode == "counts"
        expect(counts == isinstance(message, NoisyCounts), message, "not of this model")
        if isinstance(message, BlindedSums):
            return [begin_comparison(message, run, self.pool)]
        keep_counts(message, run)
        return []

    # Row 0: keys.

    def _admit(
        self, message: BankKeys | Receipt, run: RunRecords, answered: list[str], tx: Transaction
    ) -> Iterable[Message]:
        parameters, sender = run.parameters(), message.address.sender
        expect(sender not in answered, message, "has answered already")
        if isinstance(message, BankKeys):
            expect(sender in parameters.banks, message, "takes no part in this run")
            PublicKey(parameters.share_ring, message.public_key).require_valid()
            expect(
                PublicIdentity.from_bytes(message.identity).name == sender,
                message,
                "the identity of another bank",
            )
            run.put(f"bank/{sender}/public key", message.public_key)
            run.put(f"bank/{sender}/identity", message.identity)
        else:
            expect(sender == AGGREGATOR, message, "a bank answers with its keys")
            expect_receipt_of(RunProposal, message)
        answered = [*answered, sender]
        if len(answered) < len(self._partners(parameters)):
            run.put_stage(Proposed(answered))
            return []
        tx.acknowledge(_proposing(message.address))
        begun = self._chains.first_banks(parameters)
        run.put_stage(Running(dict.fromkeys(begun, 0)))
        return [self._chains.message(run, bank, 0, message.address) for bank in begun]

    # Match and count: one chain per bank.

    def _advance(
        self,
        message: BlindedIndicators | Receipt,
        run: RunRecords,
        answered: dict[str, int],
        tx: Transaction,
    ) -> Iterable[Message]:
        parameters, here = run.parameters(), message.address
        answered, next_banks = self._chains.advance(message, run, answered)
        acknowledge_previous(run, tx, here.sender, message)
        if parameters.purpose == "matching" and self._chains.all_answered(parameters, answered):
            return self._put_in_force(parameters, here, run)
        run.put_stage(Running(answered))
        return [self._chains.message(run, bank, answered[bank], here) for bank in next_banks]


def _proposing(address: Address) -> str:
    """The name under which the proposals of a match wait for their answers."""
    return f"{address.run_id}/propose/{address.epoch}"

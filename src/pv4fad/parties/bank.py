"""A bank: matches encrypted accounts against its own, and adds the noise (protocol.md §3-5).

Holds its account records, its keys and its ledger.  Learns public sizes only: what it can open is
uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.he.keys import SecretKey
from pv4fad.parties.bank_stages import (
    BankStage,
    Following,
    Matched,
    Released,
    Stage,
    Trained,
    stage_of,
)
from pv4fad.parties.epochs import enter_epoch
from pv4fad.parties.party import Party, acknowledge_previous
from pv4fad.protocol.checks import out_of_order
from pv4fad.protocol.compare.bank import keep_label_share
from pv4fad.protocol.compare.messages import LabelMasks
from pv4fad.protocol.count.bank import add_products, draw_noise, release
from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.match.bank import (
    answer_bits,
    answer_digits,
    answer_planes,
    answer_table,
    keep_in_force,
)
from pv4fad.protocol.match.bank_accounts import BankRecords, BankTable
from pv4fad.protocol.match.messages import (
    EncryptedTable,
    IndicatorPlanes,
    RemainderBits,
    TablesInForce,
    ValueDigits,
)
from pv4fad.protocol.notify.bank import keep_notice
from pv4fad.protocol.notify.messages import Notify
from pv4fad.protocol.order import chain_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.bank import join, join_match, meet, require_same_accounts
from pv4fad.protocol.propose.messages import Roster, RunProposal
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.propose.state import AccountFile, OwnKeys
from pv4fad.protocol.receipt import receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY, BankScoring
from pv4fad.protocol.score.messages import BlindedSetShares, LabelRequest, ScoreQuery
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, Budget
from pv4fad.protocol.state import parameters_of, with_keys_in_use
from pv4fad.protocol.wire import Message
from pv4fad.store.records import Records, run_ids
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

_Step = Roster | EncryptedTable | ValueDigits | RemainderBits | IndicatorPlanes | MaskedProducts
"""The messages of a bank's chain in training or a match."""


class Bank(Party):
    """B_j of the protocol."""

    def __init__(
        self,
        name: str,
        store: Store,
        pool: WorkerPool,
        *,
        records: BankRecords,
        identity: Identity,
        signing_keys: Mapping[str, bytes],
        policy: Policy,
        layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
        budget: Budget = DEFAULT_BUDGET,
    ) -> None:
        """`signing_keys`: the Ed25519 key of every bank, known from elsewhere than the run.
        `policy`: the runs in which this bank takes part."""
        super().__init__(name, store, pool)
        self._records = records
        self._identity = identity
        self._policy = policy
        self._signing_keys = dict(signing_keys)
        self._scoring = BankScoring(name, pool, layers_per_day, budget=budget)
        self._tables: dict[tuple[str, str], BankTable] = {}

    @property
    def n_accounts(self) -> int:
        """How many accounts this bank holds."""
        return len(self._records.bare_ids)

    @property
    def account_file(self) -> str:
        """The version of its account file."""
        return self._records.fingerprint

    def matched_account_file(self, run_id: str, match: int) -> str | None:
        """The version that a match began with; None if there was no such match."""
        with self.store.transaction() as tx:
            noted = Records(tx, run_id, match).find(AccountFile)
        return None if noted is None else noted.fingerprint

    def live_keys(self) -> dict[str, tuple[int, SecretKey]]:
        """What live queries are opened with: by run, the match whose keys are in use, and the key.

        Of the runs with noisy counts that have a model; answers of metered ones have to pass the
        aggregator, and the bank's policy may allow no others.
        """
        keys: dict[str, tuple[int, SecretKey]] = {}
        if self._policy.metered:
            return keys
        with self.store.transaction() as tx:
            for run_id in run_ids(self.store):
                training = Records(tx, run_id)
                if not isinstance(stage_of(training), Released):
                    continue
                model = parameters_of(training)
                if model.mode == "counts" and not model.metered:
                    match = with_keys_in_use(training)
                    secret = match.get(OwnKeys).secret_key(model.share_ring)
                    keys[run_id] = match.epoch, secret
        return keys

    def replace_records(self, records: BankRecords) -> None:
        """The account file has changed; the next match uses it."""
        self._records = records
        self._tables = {}

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        training = Records(tx, message.address.run_id)
        if isinstance(message, Notify):
            self._require_model(stage_of(training), training)
            acknowledge_previous(training, message)  # of a bank's notices one is under way
            return [keep_notice(message, training)]
        run = training.of_epoch(message.address.epoch)
        is_query = isinstance(message, BlindedSetShares | LabelRequest | ScoreQuery)
        stage = stage_of(training if is_query else run)
        if message.address.epoch > 0:
            enter_epoch(message, training)
        if stage is not None and message.address.sender == PAYMENT_NETWORK:
            # That the next query comes does not prove that the aggregator has its part.
            summed = isinstance(message, ScoreQuery) and self._scoring.is_summed(message, training)
            acknowledge_previous(run, message, keep_this=summed)
        match stage, message:
            case None, RunProposal():
                return self._join(message, run)
            case (
                Following(done),
                Roster()
                | EncryptedTable()
                | ValueDigits()
                | RemainderBits()
                | IndicatorPlanes()
                | MaskedProducts(),
            ):
                return self._follow(message, run, done)
            case Matched(), TablesInForce():
                keep_in_force(message, training)
                return [receipt_of(message)]
            case Released(), LabelMasks():
                keep_label_share(message, run)
                run.put(BankStage(Trained()))
                return []
            case Trained() | Released(), BlindedSetShares() | LabelRequest() | ScoreQuery():
                self._require_model(stage, training)
                self._policy.require_answers(parameters_of(training), self.name)
                return self._scoring.answer(message, training)
            case _:
                raise out_of_order(message, stage)

    def _join(self, message: RunProposal, run: Records) -> Iterable[Message]:
        me, accounts = self._identity, self._records
        if run.epoch == 0:
            keys = join(message, run, identity=me, accounts=accounts, policy=self._policy)
        else:
            self._require_model(stage_of(run.of_epoch(0)), run.of_epoch(0))
            self._policy.require_answers(parameters_of(run.of_epoch(0)), self.name)
            keys = join_match(message, run, identity=me, accounts=accounts)
        run.put(BankStage(Following(0)))
        return [keys]

    def _require_model(self, stage: Stage | None, training: Records) -> None:
        """A model exists: this bank holds its label share, or the payment network has it all."""
        released = isinstance(stage, Released) and parameters_of(training).mode != "sealed"
        if not (isinstance(stage, Trained) or released):
            raise OrderError(f"{self.name}: this run has no model yet")

    def _follow(self, message: _Step, run: Records, done: int) -> Iterable[Message]:
        """The next message of the bank's chain; after the last one of training, the release."""
        self._policy.require_answers(parameters_of(run.of_epoch(0)), self.name)
        parameters = parameters_of(run)
        steps = chain_of(parameters, self.name)
        steps[done].expect_message(message)
        answer = self._answer_step(message, run)
        if done + 1 < len(steps):
            run.put(BankStage(Following(done + 1)))
            return [answer]
        if parameters.purpose == "matching":
            run.put(BankStage(Matched()))
            return [answer]
        require_same_accounts(run, self._records, self.name)
        noisy_sums = release(
            message.address,
            run,
            noise=self._noise(parameters),
            bank=self.name,
            account_file=self.account_file,
        )
        run.put(BankStage(Released()))
        return [answer, noisy_sums]

    def _answer_step(self, message: _Step, run: Records) -> Message:
        match message:
            case Roster():
                keys = self._signing_keys
                meet(message, run, identity=self._identity, signing_keys=keys)
                return receipt_of(message)
            case EncryptedTable():
                require_same_accounts(run, self._records, self.name)
                table = self._table(parameters_of(run), message.address.table_id)
                return answer_table(message, table, run, self.pool)
            case ValueDigits():
                return answer_digits(message, run, self.pool)
            case RemainderBits():
                return answer_bits(message, run, self.pool)
            case IndicatorPlanes():
                return answer_planes(message, run, self.pool)
            case MaskedProducts():
                add_products(message, run, self.pool)
                return receipt_of(message)

    def _table(self, parameters: RunParameters, table_id: str) -> BankTable:
        key = (parameters.run_id, table_id)
        if key not in self._tables:
            plan = parameters.table(table_id)
            self._tables = {key: BankTable.of(self._records, parameters, plan)}
        return self._tables[key]

    def _noise(self, parameters: RunParameters) -> NDArray[np.int64]:
        return draw_noise(parameters)

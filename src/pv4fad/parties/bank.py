"""A bank: matches encrypted accounts against its own, and adds the noise (protocol.md §3-5).

Holds its account records, its keys and its ledger.  Learns public sizes only: what it can open is
uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, OrderError, ParameterError
from pv4fad.he.keys import KeyPair, PublicKey, SecretKey, generate_keys
from pv4fad.parties.bank_stages import Counting, Joined, Matched, Matching, Released, Trained
from pv4fad.parties.epochs import enter_epoch
from pv4fad.parties.party import Accepts, Party
from pv4fad.privacy.ledger import require_affordable, spend
from pv4fad.privacy.pairwise import pairwise_mask, pairwise_seeds
from pv4fad.protocol.checks import expect, expect_residues, out_of_order
from pv4fad.protocol.compare.messages import LabelMasks
from pv4fad.protocol.count.bank import add_products, draw_noise, expense_of
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.count.steps import noisy_share
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.match.bank import MatchBlock, match_blocks
from pv4fad.protocol.match.bank_accounts import BankRecords, BankTable
from pv4fad.protocol.match.messages import BlindedIndicators, EncryptedTable, TablesInForce
from pv4fad.protocol.parameters import RunParameters, TablePlan, digest_of, table_epoch
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords, acknowledge_previous, stages
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY, BankScoring
from pv4fad.protocol.score.messages import BlindedSetShares, LabelRequest, ScoreQuery
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

# Of training itself the model stays; what the join and its keys consist of does not.
_JOIN = ("own secret key", "own public key", "public key", "relinearisation key", "opened sets/")


_STAGES = stages(Joined, Matching, Matched, Counting, Released, Trained)


class Bank(Party):
    """B_j of the protocol."""

    accepts: ClassVar[Accepts] = {
        RunProposal: (PAYMENT_NETWORK,),
        Roster: (PAYMENT_NETWORK,),
        EncryptedTable: (PAYMENT_NETWORK,),
        MaskedProducts: (PAYMENT_NETWORK,),
        LabelMasks: (AGGREGATOR,),
        BlindedSetShares: (PAYMENT_NETWORK,),
        LabelRequest: (PAYMENT_NETWORK,),
        ScoreQuery: (PAYMENT_NETWORK,),
        TablesInForce: (PAYMENT_NETWORK,),
    }

    def __init__(
        self,
        name: str,
        store: Store,
        pool: WorkerPool,
        *,
        records: BankRecords,
        identity: Identity,
        signing_keys: Mapping[str, bytes],
        honest_banks: int = 1,
        layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
    ) -> None:
        """`signing_keys`: the Ed25519 key of every bank, known from elsewhere than the run."""
        super().__init__(name, store, pool)
        self._records = records
        self._identity = identity
        self._honest_banks = honest_banks
        self._signing_keys = dict(signing_keys)
        self._scoring = BankScoring(name, pool, identity.pairwise, layers_per_day)
        self._tables: dict[tuple[str, str], BankTable] = {}

    @property
    def n_accounts(self) -> int:
        """How many accounts this bank holds."""
        return len(self._records.bare_ids)

    @property
    def account_file(self) -> str:
        """The version of its account file."""
        return self._records.fingerprint

    def replace_records(self, records: BankRecords) -> None:
        """The account file has changed; the next match uses it."""
        self._records = records
        self._tables = {}

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        training = RunRecords(tx, message.address.run_id)
        run = training.of_epoch(message.address.epoch)
        is_query = isinstance(message, BlindedSetShares | LabelRequest | ScoreQuery)
        stage = (training if is_query else run).stage(_STAGES)
        if message.address.epoch > 0:
            enter_epoch(message, training, tx)
        if stage is not None and message.address.sender == PAYMENT_NETWORK:
            acknowledge_previous(run, tx, PAYMENT_NETWORK, message)
        match stage, message:
            case None, RunProposal() if message.address.epoch == 0:
                return self._join(message, run, tx)
            case None, RunProposal():
                return self._rejoin(message, run, training)
            case Trained() | Released(), BlindedSetShares() | LabelRequest() | ScoreQuery():
                self._require_model(stage, training)
                return self._scoring.answer(message, training)
            case Joined(), Roster():
                return self._meet(message, run)
            case Matching(done), EncryptedTable():
                return self._match(message, run, done)
            case Matched(), TablesInForce():
                return self._retire_tables(message, training)
            case Counting(done), MaskedProducts():
                return self._count(message, run, done, tx)
            case Released(), LabelMasks():
                return self._keep_label_share(message, run)
            case _:
                raise out_of_order(message, stage)

    # Row 0: parameters and keys.

    def _join(self, message: RunProposal, run: RunRecords, tx: Transaction) -> Iterable[Message]:
        parameters = self._checked_parameters(message)
        expect(parameters.purpose == "training", message, "a match without a model to score")
        if parameters.noise == "distributed" and parameters.honest_banks > self._honest_banks:
            raise ParameterError(
                f"honest_banks = {parameters.honest_banks}: {self.name} relies on at most"
                f" {self._honest_banks}, itself included, and would add too little noise"
            )
        # Better refused now than after the match; nothing is spent before the release.
        require_affordable(tx, expense_of(parameters, self.account_file))
        keys = generate_keys(parameters.share_ring, relinearisation=False)
        run.put_arrays("sums", q=np.zeros(parameters.sizes.n_sums, np.uint64))
        run.put_stage(Joined())
        return [self._keys(message, parameters, run, keys)]

    def _rejoin(
        self, message: RunProposal, run: RunRecords, training: RunRecords
    ) -> Iterable[Message]:
        """A further match for a trained model: more tables, or all of them with new keys."""
        self._require_model(training.stage(_STAGES), training)
        parameters, model = self._checked_parameters(message), training.parameters()
        same = {"atoms", "sizes", "mode", "counted", "absent", "code"}
        expect(
            parameters.purpose == "matching"
            and parameters.plain_modulus == model.plain_modulus
            and list(parameters.banks) == list(model.banks)
            and all(getattr(parameters, name) == getattr(model, name) for name in same)
            and all(table_epoch(p.table_id) == message.address.epoch for p in parameters.tables),
            message,
            "a match that does not belong to the model",
        )
        # New keys of the payment network are the sign to renew one's own as well.
        before = training.of_epoch(training.find_json("key epoch", 0))
        if before.get("public key") == message.public_key:
            self._require_same_records(before)
            keys = KeyPair(
                SecretKey(parameters.share_ring, before.get("own secret key")),
                PublicKey(parameters.share_ring, before.get("own public key")),
            )
        else:
            keys = generate_keys(parameters.share_ring, relinearisation=False)
        run.put_stage(Matching(0))
        return [self._keys(message, parameters, run, keys)]

    def _retire_tables(self, message: TablesInForce, training: RunRecords) -> Iterable[Message]:
        """Joins and keys that are no longer needed are forgotten."""
        in_force = set(message.epochs)
        expect(message.address.epoch in in_force, message, "a complete match is in force")
        # Keys are made with the match that replaced all others; a delta has the same.
        training.put_json("key epoch", min(in_force))
        for old in training.epochs() - in_force:
            training.of_epoch(old).delete_all("")
        if 0 not in in_force:
            training.delete_all(*_JOIN)
        return [Receipt(self._address(PAYMENT_NETWORK, message.address), of=message_id(message))]

    def _checked_parameters(self, message: RunProposal) -> RunParameters:
        parameters = RunParameters.from_json(message.parameters)
        expect(parameters.run_id == message.address.run_id, message, "parameters of another run")
        expect(self.name in parameters.banks, message, "this bank takes no part")
        declared = parameters.banks[self.name]
        if len(self._records.bare_ids) > declared:
            raise ParameterError(
                f"{self.name} holds more accounts than the {declared} declared for it: "
                "declare more bank accounts"
            )
        return parameters

    def _keys(
        self, message: RunProposal, parameters: RunParameters, run: RunRecords, keys: KeyPair
    ) -> BankKeys:
        public = PublicKey(parameters.match_ring, message.public_key, message.relinearisation_key)
        public.require_valid(multiplies=True)
        run.put("parameters", message.parameters)
        run.put("account file", self._records.fingerprint.encode())
        run.put("public key", message.public_key)
        run.put("relinearisation key", message.relinearisation_key)
        run.put("own secret key", keys.secret.data)
        run.put("own public key", keys.public.data)
        address = self._address(PAYMENT_NETWORK, message.address)
        return BankKeys(address, keys.public.data, self._identity.public().to_bytes())

    def _require_model(self, stage: Trained | Released | None, training: RunRecords) -> None:
        """A model exists: this bank holds its label share, or the payment network has it all."""
        released = isinstance(stage, Released) and training.parameters().mode != "sealed"
        if not (isinstance(stage, Trained) or released):
            raise OrderError(f"{self.name}: this run has no model yet")

    def _meet(self, message: Roster, run: RunRecords) -> Iterable[Message]:
        """The other banks' X25519 keys, each signed by the bank that is known by that name."""
        parameters = run.parameters()
        shown = [PublicIdentity.from_bytes(one) for one in message.identities]
        expect(
            sorted(one.name for one in shown) == sorted(parameters.banks),
            message,
            "not exactly the banks of the run",
        )
        for one in shown:
            expect(one.name in self._signing_keys, message, f"unknown bank {one.name}")
            one.require_signed_by(self._signing_keys[one.name])
        others = {one.name: one.pairwise_key for one in shown if one.name != self.name}
        pairwise_seeds(self._identity.pairwise, others, parameters.run_id)  # refuses unfit keys
        run.put_json("others", {name: key.hex() for name, key in others.items()})
        run.put_stage(Matching(0))
        return [Receipt(self._address(PAYMENT_NETWORK, message.address), of=message_id(message))]

    # Match.

    def _match(self, message: EncryptedTable, run: RunRecords, done: int) -> Iterable[Message]:
        parameters = run.parameters()
        steps = parameters.match_steps(self.name)
        plan, chunk = steps[done]
        here = message.address
        expect((here.table_id, here.index) == (plan.table_id, chunk), message, "not the next block")
        self._require_same_records(run)
        blocks = parameters.blocks_of_chunk(plan, chunk)
        expect(len(message.planes) == len(blocks), message, "wrong number of blocks")
        table = self._table(parameters, plan)
        matched = match_blocks(
            [
                MatchBlock(planes, *table.layers(block))
                for planes, block in zip(message.planes, blocks, strict=True)
            ],
            parameters,
            public=PublicKey(
                parameters.match_ring, run.get("public key"), run.get("relinearisation key")
            ),
            secret=SecretKey(parameters.share_ring, run.get("own secret key")),
            pool=self.pool,
        )
        indicators: list[bytes] = []
        shares: list[bytes] = []
        for one in matched:
            indicators += one.blinded
            shares += one.encrypted_shares
        if done + 1 < len(steps):
            run.put_stage(Matching(done + 1))
        else:
            run.put_stage(Counting(0) if parameters.purpose == "training" else Matched())
        address = self._address(PAYMENT_NETWORK, here, plan.table_id, chunk)
        return [BlindedIndicators(address, tuple(indicators), tuple(shares))]

    def _require_same_records(self, run: RunRecords) -> None:
        """All blocks of a match must show one version of the accounts."""
        if run.get("account file") != self._records.fingerprint.encode():
            raise DataError(
                f"{self.name}: the account file is not the one that the match began with; "
                "continue with that one, or match all accounts anew"
            )

    def _table(self, parameters: RunParameters, plan: TablePlan) -> BankTable:
        key = (parameters.run_id, plan.table_id)
        if key not in self._tables:
            self._tables = {key: BankTable.of(self._records, parameters, plan)}
        return self._tables[key]

    # Count, and the release.

    def _count(
        self, message: MaskedProducts, run: RunRecords, done: int, tx: Transaction
    ) -> Iterable[Message]:
        parameters = run.parameters()
        steps = parameters.count_steps(self.name)
        plan, chunk = steps[done]
        here = message.address
        expect((here.table_id, here.index) == (plan.table_id, chunk), message, "not the next lanes")
        add_products(message, parameters, plan, chunk, run=run, pool=self.pool)
        replies: list[Message] = [
            Receipt(self._address(PAYMENT_NETWORK, here, plan.table_id, chunk), message_id(message))
        ]
        if done + 1 < len(steps):
            run.put_stage(Counting(done + 1))
            return replies
        run.put_stage(Released())
        return [*replies, self._release(message, parameters, run, tx)]

    def _release(
        self, message: Message, parameters: RunParameters, run: RunRecords, tx: Transaction
    ) -> NoisySums:
        """ε is spent in the transaction that stores the noisy sums, before they are sent."""
        self._require_same_records(run)
        spend(tx, expense_of(parameters, self.account_file))
        n, t = parameters.sizes.n_sums, parameters.plain_modulus
        others = {name: bytes.fromhex(key) for name, key in run.get_json("others").items()}
        # Banks that were told different parameters mask differently, and their sum is noise.
        context = b"noisy sums " + digest_of(parameters)
        mask = pairwise_mask(
            self._identity.pairwise, others, parameters.run_id, context, modulus=t, n=n
        )
        residues = noisy_share(self._noise(parameters), run.get_arrays("sums")["q"], mask, t)
        return NoisySums(self._address(AGGREGATOR, message.address), residues)

    def _noise(self, parameters: RunParameters) -> NDArray[np.int64]:
        return draw_noise(parameters)

    def _keep_label_share(self, message: LabelMasks, run: RunRecords) -> Iterable[Message]:
        parameters = run.parameters()
        expect(parameters.mode == "sealed", message, "this model is released, not sealed")
        expect_residues(
            message, message.residues, parameters.sizes.n_leaves, parameters.plain_modulus
        )
        run.put_arrays("label share", b=message.residues)
        run.put_stage(Trained())
        return []

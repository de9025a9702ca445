"""The payment network: its transactions teach the trees, its keys hide its accounts (protocol.md).

Holds labelled transactions, the forest and its HE key.  In training it learns nothing: what it
opens is uniform, up to its share of the labels (sealed) or the noisy labels (released).

It leads the run.  Each bank has a chain of messages, one under way at a time: the blocks of its
tables, then the masked products; at most `banks_at_once` chains are under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.forest.counts import GroupCounts
from pv4fad.forest.forest_file import from_document, to_document
from pv4fad.forest.structure import Forest
from pv4fad.hashing.cuckoo import place
from pv4fad.hashing.keyed import hash_accounts
from pv4fad.he.keys import KeyPair, PublicKey, SecretKey, generate_keys
from pv4fad.he.pool import WorkerPool
from pv4fad.he.ring import Ring
from pv4fad.parties.identity import PublicIdentity
from pv4fad.parties.network_scoring import NetworkScoring, Scored, Scoring
from pv4fad.parties.party import (
    AGGREGATOR,
    PAYMENT_NETWORK,
    Party,
    RunRecords,
    acknowledge_previous,
    expect,
    expect_residues,
    out_of_order,
    stages,
)
from pv4fad.parties.scoring_tables import ScoringInput, ShareBlocks
from pv4fad.parties.store import Store, Transaction
from pv4fad.protocol.compare import DigitsJob, digit_bases, digits, encrypt_digit
from pv4fad.protocol.count import ProductsJob, SparseSum, masked_products, own_share
from pv4fad.protocol.leaves import masked_leaves
from pv4fad.protocol.match import OpenJob, PlanesJob, encrypt_planes, open_indicators
from pv4fad.protocol.messages import (
    BankKeys,
    BlindedIndicators,
    BlindedSums,
    EncryptedDigits,
    EncryptedTable,
    LabelMasks,
    MaskedProducts,
    Receipt,
    Roster,
    RunProposal,
    SharedLabels,
)
from pv4fad.protocol.packing import Lane
from pv4fad.protocol.parameters import RunParameters, TablePlan, table_epoch
from pv4fad.protocol.scoring_messages import EncryptedLabels, ScoreReply, SetSharesOpened
from pv4fad.protocol.tables import AccountKey, TableAccounts
from pv4fad.protocol.wire import Address, Message, encode

_BATCH = 16  # ciphertexts of one worker's job


@dataclass(frozen=True)
class TrainingInput:
    """What the payment network brings: its trees, and what its transactions count in them."""

    forest: Forest = field(repr=False)
    counts: GroupCounts = field(repr=False)
    green_labels: NDArray[np.int8] = field(repr=False)
    tables: dict[str, TableAccounts] = field(repr=False)


@dataclass(frozen=True)
class Proposed:
    """Waiting for the keys of the banks, and for the aggregator, that are not in `answered`."""

    answered: list[str]


@dataclass(frozen=True)
class Running:
    """For each bank whose chain has begun, how many of its steps have been answered."""

    answered: dict[str, int]


@dataclass(frozen=True)
class Matched:
    """A match after training is complete."""


@dataclass(frozen=True)
class Comparing:
    """`done` blocks of labels received."""

    done: int


@dataclass(frozen=True)
class Revealing:
    """Released mode: own share of the labels received, waiting for the other."""


@dataclass(frozen=True)
class Trained:
    """The model exists."""


_STAGES = stages(Proposed, Running, Matched, Comparing, Revealing, Trained, Scoring, Scored)


class PaymentNetwork(Party):
    """S of the protocol."""

    def __init__(self, store: Store, pool: WorkerPool, banks_at_once: int = 1) -> None:
        super().__init__(PAYMENT_NETWORK, store, pool)
        self._banks_at_once = banks_at_once
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
            run.put_json("forest", to_document(data.forest))
            counts = data.counts
            run.put_arrays(
                "counts",
                start=counts.start,
                key=counts.key,
                weight=counts.weight,
                n_path=counts.n_path,
            )
            run.put_arrays("green labels", labels=data.green_labels)
            shape = (parameters.sizes.n_groups, parameters.sizes.n_sets)
            run.put_arrays("sums", p=np.zeros(shape, np.uint64))
            run.put_json("matches", [0])
            run.put_json("last epoch", 0)
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
        changed; otherwise its tables ('delta') are added to those that exist.
        """
        with self.store.transaction() as tx:
            training = RunRecords(tx, parameters.run_id)
            self._require_model(training)
            epoch = _new_epoch(training)
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
            return _last_epoch(RunRecords(tx, run_id)) + 1

    def score(self, run_id: str, data: ScoringInput) -> tuple[int, list[bytes]]:
        """Begin to score a batch: its number, and the first queries."""
        with self.store.transaction() as tx:
            training = RunRecords(tx, run_id)
            self._require_model(training)
            epoch = _new_epoch(training)
            address = Address(self.name, self.name, run_id, "", epoch)
            messages = self._scoring.begin(data, training, training.of_epoch(epoch), address)
            queries = [encode(one) for one in messages]
            tx.record_reply(f"{run_id}/score/{epoch}", b"", queries)
        return epoch, queries

    def votes(self, run_id: str, batch: int) -> NDArray[np.int64]:
        """The vote total of each side of each transaction of a batch, (transactions, 2)."""
        with self.store.transaction() as tx:
            training = RunRecords(tx, run_id)
            stage = training.of_epoch(batch).stage(_STAGES)
            if not isinstance(stage, Scored):
                raise OrderError(f"batch {batch} of run {run_id} is not scored yet")
            return self._scoring.votes(training, training.of_epoch(batch))

    def unknown_accounts(self, run_id: str, keys: Sequence[AccountKey]) -> list[int]:
        """The accounts that a further match has to bring in before they can be scored."""
        with self.store.transaction() as tx:
            return self._scoring.unknown_accounts(keys, RunRecords(tx, run_id))

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
        text = parameters.model_dump_json()
        run.put("parameters", text.encode())
        run.put("secret key", keys.secret.data)
        run.put("public key", keys.public.data)
        run.put("relinearisation key", keys.public.relinearisation or b"")
        for plan in parameters.tables:
            self._place(parameters, plan, tables[plan.table_id], run)
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
        tx.record_reply(f"{parameters.run_id}/propose/{epoch}", b"", proposals)
        return proposals

    def _partners(self, parameters: RunParameters) -> list[str]:
        """Who is proposed a match: the aggregator knows the run from training."""
        others = [AGGREGATOR] if parameters.purpose == "training" else []
        return [*others, *parameters.banks]

    def _finish_match(self, address: Address, run: RunRecords) -> None:
        """The tables of this match are now the ones to score with, or are among them."""
        training = run.of_epoch(0)
        if run.get_json("replaces"):
            training.put_json("matches", [address.epoch])
            training.put_json("key epoch", address.epoch)
        else:
            training.put_json("matches", [*training.get_json("matches"), address.epoch])
        run.put_stage(Matched())

    def _place(
        self, parameters: RunParameters, plan: TablePlan, accounts: TableAccounts, run: RunRecords
    ) -> None:
        """The cuckoo table: which account is in which bin, and the bins' codewords."""
        hashes = hash_accounts(accounts.ids, parameters.hash_key)
        placement = place(hashes, accounts.trees, plan.layout)
        words = np.zeros(plan.layout.n_bins, np.uint64)
        words[placement.bin_of_account] = parameters.code.encode(hashes.tags)
        # Ids are canonical: there is no white space in them.
        run.put(f"ids/{plan.table_id}", b"\n".join(accounts.ids))
        run.put_arrays(
            f"table/{plan.table_id}",
            words=words,
            bins=placement.bin_of_account,
            keys=accounts.keys,
        )

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        run = RunRecords(tx, message.address.run_id, message.address.epoch)
        match run.stage(_STAGES), message:
            case Proposed(answered), BankKeys() | Receipt():
                return self._admit(message, run, answered)
            case Running(answered), BlindedIndicators() | Receipt():
                return self._advance(message, run, answered, tx)
            case Running(answered), BlindedSums():
                return self._begin_comparison(message, run, answered)
            case Comparing(done), SharedLabels():
                return self._keep_label_share(message, run, done)
            case (
                Scoring() as stage,
                ScoreReply() | EncryptedLabels() | SetSharesOpened() | Receipt(),
            ):
                if message.address.sender != AGGREGATOR:
                    acknowledge_previous(run, tx, message.address.sender, message)
                return self._scoring.advance(message, run.of_epoch(0), run, stage)
            case Revealing(), LabelMasks():
                return self._reveal_labels(message, run)
            # The last bank's receipt can be overtaken by what follows from it.
            case Comparing() | Revealing() | Trained() | Scored(), Receipt():
                return []
            case stage, _:
                raise out_of_order(message, stage)

    # Row 0: keys.

    def _admit(
        self, message: BankKeys | Receipt, run: RunRecords, answered: list[str]
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
        answered = [*answered, sender]
        if len(answered) < len(self._partners(parameters)):
            run.put_stage(Proposed(answered))
            return []
        begun = list(parameters.banks)[: self._banks_at_once]
        run.put_stage(Running(dict.fromkeys(begun, 0)))
        return [self._step(parameters, run, bank, 0, message.address) for bank in begun]

    # Match and count: one chain per bank.

    def _advance(
        self,
        message: BlindedIndicators | Receipt,
        run: RunRecords,
        answered: dict[str, int],
        tx: Transaction,
    ) -> Iterable[Message]:
        parameters, bank = run.parameters(), message.address.sender
        expect(bank in answered, message, "nothing was asked of it yet")
        self._take_answer(message, parameters, run, answered[bank])
        acknowledge_previous(run, tx, bank, message)
        answered = answered | {bank: answered[bank] + 1}
        next_steps = []
        if answered[bank] < len(_steps(parameters, bank)):
            next_steps.append(bank)
        else:
            waiting = [name for name in parameters.banks if name not in answered]
            next_steps += waiting[:1]
            answered |= dict.fromkeys(waiting[:1], 0)
        if parameters.purpose == "matching" and self._all_answered(parameters, answered):
            self._finish_match(message.address, run)
        else:
            run.put_stage(Running(answered))
        return [
            self._step(parameters, run, name, answered[name], message.address)
            for name in next_steps
        ]

    def _all_answered(self, parameters: RunParameters, answered: dict[str, int]) -> bool:
        return all(
            answered.get(bank, 0) == len(_steps(parameters, bank)) for bank in parameters.banks
        )

    def _step(
        self, parameters: RunParameters, run: RunRecords, bank: str, number: int, like: Address
    ) -> Message:
        step = _steps(parameters, bank)[number]
        if step.plan is None:
            identities = tuple(run.get(f"bank/{name}/identity") for name in parameters.banks)
            return Roster(self._address(bank, like), identities)
        address = self._address(bank, like, step.plan.table_id, step.chunk)
        if step.kind is EncryptedTable:
            return EncryptedTable(address, self._planes(parameters, step.plan, step.chunk, run))
        products = self._products(parameters, step.plan, step.chunk, bank, run)
        return MaskedProducts(address, products)

    def _take_answer(
        self,
        message: BlindedIndicators | Receipt,
        parameters: RunParameters,
        run: RunRecords,
        number: int,
    ) -> None:
        steps = _steps(parameters, message.address.sender)
        expect(number < len(steps), message, "nothing was asked")
        step = steps[number]
        asked = (step.plan.table_id if step.plan else "", step.chunk)
        wanted = BlindedIndicators if step.kind is EncryptedTable else Receipt
        expect(
            isinstance(message, wanted)
            and (message.address.table_id, message.address.index) == asked,
            message,
            "not what was asked",
        )
        if isinstance(message, BlindedIndicators) and step.plan is not None:
            self._keep_shares(message, parameters, step.plan, step.chunk, run)

    def _planes(
        self, parameters: RunParameters, plan: TablePlan, chunk: int, run: RunRecords
    ) -> tuple[bytes, ...]:
        secret = SecretKey(parameters.match_ring, run.get("secret key"))
        words = run.get_arrays(f"table/{plan.table_id}")["words"].reshape(plan.layout.n_blocks, -1)
        jobs = [
            PlanesJob(secret, words[block], parameters.code.length)
            for block in parameters.blocks_of_chunk(plan, chunk)
        ]
        return tuple(one for planes in self.pool.map(encrypt_planes, jobs) for one in planes)

    def _keep_shares(
        self,
        message: BlindedIndicators,
        parameters: RunParameters,
        plan: TablePlan,
        chunk: int,
        run: RunRecords,
    ) -> None:
        """u_k opened, E_j[s_k] as it came, block by block."""
        blocks = parameters.blocks_of_chunk(plan, chunk)
        n_atoms, share = parameters.sizes.n_atoms, Ring.of(parameters.share_ring)
        halves = parameters.match_ring.degree // share.degree
        size = share.ciphertext_bytes(parameters.share_ring.n_data_primes)
        expect(
            len(message.indicators) == n_atoms * len(blocks)
            and len(message.encrypted_shares) == n_atoms * len(blocks) * halves
            and all(len(one) == size for one in message.encrypted_shares),
            message,
            "wrong number or size of ciphertexts",
        )
        secret = SecretKey(parameters.match_ring, run.get("secret key"))
        jobs = [
            OpenJob(secret, message.indicators[i * n_atoms : (i + 1) * n_atoms])
            for i in range(len(blocks))
        ]
        for i, (block, u) in enumerate(
            zip(blocks, self.pool.map(open_indicators, jobs), strict=True)
        ):
            where = f"{message.address.sender}/{plan.table_id}/{block}"
            run.put_arrays(f"opened/{where}", u=u)
            mine = message.encrypted_shares[i * n_atoms * halves : (i + 1) * n_atoms * halves]
            run.put(f"shares/{where}", b"".join(mine))

    def _products(
        self, parameters: RunParameters, plan: TablePlan, chunk: int, bank: str, run: RunRecords
    ) -> tuple[bytes, ...]:
        """Step 1 of count for some lanes; this party's share p is kept at the same time."""
        table = _CountTable.of(parameters, plan, bank, run)
        public = PublicKey(parameters.share_ring, run.get(f"bank/{bank}/public key"))
        flood = parameters.bounds["linear"].flood
        lanes = parameters.lanes_of_chunk(plan, chunk)
        work = [
            (lane, first, table.sums(lane, first, first + _BATCH))
            for lane in lanes
            for first in range(0, parameters.sizes.sums_per_tree, _BATCH)
        ]
        jobs = (
            ProductsJob(
                public,
                flood,
                lane.blocks,
                tuple(table.shares.of_block(block) for block in lane.blocks),
                lane.slots,
                sums,
            )
            for lane, _, sums in work
        )
        t = parameters.plain_modulus
        p = run.get_arrays("sums")["p"]
        by_tree = p.reshape(parameters.sizes.n_trees, -1)
        ciphertexts: list[bytes] = []
        for (lane, first, sums), batch in zip(
            work, self.pool.map(masked_products, jobs), strict=True
        ):
            ciphertexts += batch.ciphertexts
            for i, packed in enumerate(sums):
                for tree, one, mask in zip(lane.trees, packed, batch.mask_totals[i], strict=True):
                    mine = own_share(one, table.opened, int(mask), t)
                    by_tree[tree, first + i] = (int(by_tree[tree, first + i]) + mine) % t
        run.put_arrays("sums", p=p)
        return tuple(ciphertexts)

    # Compare and labels.

    def _begin_comparison(
        self, message: BlindedSums, run: RunRecords, answered: dict[str, int]
    ) -> Iterable[Message]:
        parameters = run.parameters()
        expect(message.address.sender == AGGREGATOR, message, "not from the aggregator")
        all_sent = all(
            answered.get(bank, 0) + 1 >= len(_steps(parameters, bank)) for bank in parameters.banks
        )
        expect(all_sent, message, "not all sums have been sent")
        sizes, t = parameters.sizes, parameters.plain_modulus
        expect_residues(message, message.residues, sizes.n_leaves, t)
        n_path = run.get_arrays("counts")["n_path"]
        w = masked_leaves(message.residues, run.get_arrays("sums")["p"], n_path, t)
        run.put_arrays("masked leaves", w=w.ravel())
        run.put_stage(Comparing(0))
        return [self._digits(parameters, run, 0, message.address)]

    def _digits(
        self, parameters: RunParameters, run: RunRecords, block: int, like: Address
    ) -> EncryptedDigits:
        t, degree = parameters.plain_modulus, parameters.match_ring.degree
        secret = SecretKey(parameters.match_ring, run.get("secret key"))
        w = run.get_arrays("masked leaves")["w"][block * degree : (block + 1) * degree]
        jobs = [
            DigitsJob(secret, digit, base)
            for digit, base in zip(digits(w, t), digit_bases(t), strict=True)
        ]
        one_hot = tuple(one for digit in self.pool.map(encrypt_digit, jobs) for one in digit)
        return EncryptedDigits(self._address(AGGREGATOR, like, index=block), one_hot)

    def _keep_label_share(
        self, message: SharedLabels, run: RunRecords, done: int
    ) -> Iterable[Message]:
        parameters, block = run.parameters(), message.address.index
        expect(message.address.sender == AGGREGATOR, message, "not from the aggregator")
        expect(block == done, message, f"block {done} is next")
        secret = SecretKey(parameters.match_ring, run.get("secret key"))
        (opened,) = self.pool.map(open_indicators, [OpenJob(secret, (message.ciphertext,))])
        run.put_arrays(f"label share/{block}", p=opened[0].astype(np.uint64))
        if block + 1 < parameters.n_leaf_blocks:
            run.put_stage(Comparing(done + 1))
            return [self._digits(parameters, run, block + 1, message.address)]
        shares = [run.get_arrays(f"label share/{i}")["p"] for i in range(parameters.n_leaf_blocks)]
        run.put_arrays("label share", p=np.concatenate(shares)[: parameters.sizes.n_leaves])
        run.put_stage(Trained() if parameters.mode == "sealed" else Revealing())
        return []

    def _reveal_labels(self, message: LabelMasks, run: RunRecords) -> Iterable[Message]:
        parameters = run.parameters()
        expect(message.address.sender == AGGREGATOR, message, "not from the aggregator")
        t = parameters.plain_modulus
        expect_residues(message, message.residues, parameters.sizes.n_leaves, t)
        labels = (run.get_arrays("label share")["p"] + message.residues) % np.uint64(t)
        expect(bool((labels <= 1).all()), message, "shares that do not add up to labels")
        run.put_arrays("labels", labels=labels.astype(np.int8))
        run.put_stage(Trained())
        return []


def _last_epoch(training: RunRecords) -> int:
    return int(training.get_json("last epoch"))


def _new_epoch(training: RunRecords) -> int:
    epoch = _last_epoch(training) + 1
    training.put_json("last epoch", epoch)
    return epoch


@dataclass(frozen=True)
class _Step:
    """One message of a bank's chain."""

    kind: type[Message]
    plan: TablePlan | None = None
    chunk: int = 0


def _steps(parameters: RunParameters, bank: str) -> list[_Step]:
    """A bank's chain: the roster, then the blocks of its tables, then the masked products."""
    matches = [_Step(EncryptedTable, *step) for step in parameters.match_steps(bank)]
    if parameters.purpose == "matching":
        return matches
    return [
        _Step(Roster),
        *matches,
        *(_Step(MaskedProducts, *step) for step in parameters.count_steps(bank)),
    ]


@dataclass(frozen=True)
class _CountTable:
    """One bank's table as counting needs it."""

    forest: Forest = field(repr=False)
    counts: GroupCounts = field(repr=False)
    bin_of_key: NDArray[np.int64] = field(repr=False)  # −1 for keys of other tables
    opened: NDArray[np.uint32] = field(repr=False)  # u, (atoms, bins)
    shares: ShareBlocks = field(repr=False)  # E_j[s]

    @classmethod
    def of(
        cls, parameters: RunParameters, plan: TablePlan, bank: str, run: RunRecords
    ) -> _CountTable:
        counts = GroupCounts(**run.get_arrays("counts"))
        table = run.get_arrays(f"table/{plan.table_id}")
        n_keys = 1 + max(int(counts.key.max(initial=0)), int(table["keys"].max(initial=0)))
        bin_of_key = np.full(n_keys, -1, np.int64)
        bin_of_key[table["keys"]] = table["bins"]
        where = [f"{bank}/{plan.table_id}/{block}" for block in range(plan.layout.n_blocks)]
        return cls(
            from_document(run.get_json("forest")),
            counts,
            bin_of_key,
            np.concatenate([run.get_arrays(f"opened/{one}")["u"] for one in where], axis=1),
            ShareBlocks(parameters, plan, bank, run),
        )

    def sums(self, lane: Lane, first: int, stop: int) -> tuple[tuple[SparseSum, ...], ...]:
        """Sums first..stop−1 of each tree of a lane: [sum][tree]."""
        sizes = self.forest.sizes
        return tuple(
            tuple(self._sum(tree * sizes.sums_per_tree + i) for tree in lane.trees)
            for i in range(first, min(stop, sizes.sums_per_tree))
        )

    def _sum(self, number: int) -> SparseSum:
        group, index = divmod(number, self.forest.sizes.n_sets)
        key, weight = self.counts.of_group(group)
        bins = self.bin_of_key[key]
        here = bins >= 0
        return SparseSum(bins[here], weight[here], self.forest.groups[group].sets[index])

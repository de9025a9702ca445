"""The aggregator: adds up what the banks mask (protocol.md §5), compares what it cannot open (§11).

Holds nothing of its own.  Learns public sizes only: all it receives is uniform or a ciphertext.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pv4fad.he.keys import PublicKey
from pv4fad.parties.epochs import enter_epoch, is_behind
from pv4fad.parties.party import Accepts, Party
from pv4fad.protocol.checks import expect, expect_residues, out_of_order
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.compare.steps import (
    LessJob,
    ShareLabelsJob,
    blinded_leaves,
    comparison_depth,
    digit_bases,
    less_than,
    share_labels,
    thresholds,
)
from pv4fad.protocol.count.messages import NoisyCounts, NoisySums
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import BANK, PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords, stages
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.wire import Address, Message, message_id
from pv4fad.randomness import secret_residues
from pv4fad.store.store import Transaction


@dataclass(frozen=True)
class Collecting:
    """Waiting for the noisy sums of the banks that are not yet in `received`."""

    received: list[str]


@dataclass(frozen=True)
class Comparing:
    """Blinded sums sent; `done` blocks of leaves compared."""

    done: int


@dataclass(frozen=True)
class Finished:
    """Counts sent on, or all labels shared."""


_STAGES = stages(Collecting, Comparing, Finished)


class Aggregator(Party):
    """A of the protocol."""

    accepts: ClassVar[Accepts] = {
        RunProposal: (PAYMENT_NETWORK,),
        NoisySums: (BANK,),
        EncryptedDigits: (PAYMENT_NETWORK,),
        ScoreReply: (BANK,),
    }

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        run = RunRecords(tx, message.address.run_id)
        if not isinstance(message, ScoreReply):
            expect(message.address.epoch == 0, message, "training is epoch 0")
        match run.stage(_STAGES), message:
            case Finished(), ScoreReply():
                return self._add_scores(message, run, tx)
            case None, RunProposal():
                return self._join(message, run)
            case Collecting(received), NoisySums():
                return self._collect(message, run, received)
            case Comparing(done), EncryptedDigits():
                return self._compare(message, run, done)
            case stage, _:
                raise out_of_order(message, stage)

    def _join(self, message: RunProposal, run: RunRecords) -> Iterable[Message]:
        parameters = RunParameters.from_json(message.parameters)
        expect(parameters.run_id == message.address.run_id, message, "parameters of another run")
        public = PublicKey(parameters.match_ring, message.public_key, message.relinearisation_key)
        public.require_valid(multiplies=True)
        run.put("parameters", message.parameters)
        run.put("public key", message.public_key)
        run.put("relinearisation key", message.relinearisation_key)
        run.put_arrays("sums", v=np.zeros(parameters.sizes.n_sums, np.uint64))
        run.put_stage(Collecting([]))
        return [Receipt(self._address(PAYMENT_NETWORK, message.address), of=message_id(message))]

    def _collect(
        self, message: NoisySums, run: RunRecords, received: list[str]
    ) -> Iterable[Message]:
        """V = Σ_j (noise − q_j + masks): the masks cancel once all banks are in."""
        parameters, bank = run.parameters(), message.address.sender
        t, sizes = parameters.plain_modulus, parameters.sizes
        expect(bank in parameters.banks and bank not in received, message, "not expected from it")
        expect_residues(message, message.residues, sizes.n_sums, t)
        v = (run.get_arrays("sums")["v"] + message.residues) % np.uint64(t)
        run.put_arrays("sums", v=v)
        if len(received) + 1 < len(parameters.banks):
            run.put_stage(Collecting([*received, bank]))
            return []
        if parameters.mode == "counts":
            # Nothing needs the sum again; with the payment network's records it tells the counts.
            run.delete("sums")
            run.put_stage(Finished())
            return [NoisyCounts(self._address(PAYMENT_NETWORK, message.address), v)]
        r = secret_residues(t, sizes.n_leaves)
        run.put_arrays("blinding", r=r)
        run.put_stage(Comparing(0))
        leaves = blinded_leaves(v.reshape(sizes.n_groups, sizes.n_sets), r, t)
        return [BlindedSums(self._address(PAYMENT_NETWORK, message.address), leaves.ravel())]

    def _compare(self, message: EncryptedDigits, run: RunRecords, done: int) -> Iterable[Message]:
        """[w < hi] − [w < lo] + [lo > hi] for one block of leaves, shared with fresh b."""
        parameters, block = run.parameters(), message.address.index
        expect(block == done, message, f"block {done} is next")
        t, ring = parameters.plain_modulus, parameters.match_ring
        public = _public_key(parameters, run)
        bases = digit_bases(t)
        expect(len(message.one_hot) == sum(bases), message, "wrong number of ciphertexts")
        one_hot, rest = [], message.one_hot
        for base in bases:
            one_hot.append(rest[:base])
            rest = rest[base:]
        # Slots beyond the last leaf hold nothing; they are blinded and shared like the others.
        r = secret_residues(t, ring.degree)
        mine = run.get_arrays("blinding")["r"][block * ring.degree : (block + 1) * ring.degree]
        r[: len(mine)] = mine
        low, high = thresholds(r, t)
        jobs = [LessJob(public, tuple(one_hot), threshold) for threshold in (high, low)]
        below_high, below_low = self.pool.map(less_than, jobs)
        b = secret_residues(t, ring.degree)
        constant = ((low > high) + np.uint64(t) - b) % np.uint64(t)
        level = ring.n_data_primes - comparison_depth(t)
        flood = parameters.bounds["compare"].flood
        job = ShareLabelsJob(public, flood, level, below_high, below_low, constant)
        (shared,) = self.pool.map(share_labels, [job])
        run.put_arrays(f"masks/{block}", b=b[: len(mine)])
        replies: list[Message] = [
            SharedLabels(self._address(PAYMENT_NETWORK, message.address, index=block), shared)
        ]
        if block + 1 < parameters.n_leaf_blocks:
            run.put_stage(Comparing(done + 1))
            return replies
        run.put_stage(Finished())
        # Nothing needs these again; with the payment network's records they would tell the sums,
        # and the masks the labels.
        run.delete("sums")
        run.delete("blinding")
        masks = [run.get_arrays(f"masks/{i}")["b"] for i in range(parameters.n_leaf_blocks)]
        run.delete_all("masks/")
        receivers = list(parameters.banks) if parameters.mode == "sealed" else [PAYMENT_NETWORK]
        return replies + [
            LabelMasks(self._address(receiver, message.address), np.concatenate(masks))
            for receiver in receivers
        ]

    def _add_scores(
        self, message: ScoreReply, training: RunRecords, tx: Transaction
    ) -> Iterable[Message]:
        """Answers about a broadcast table: only their sum goes on, once all banks are in."""
        if is_behind(message, training):
            return []  # sent again by a bank that cannot know that it had arrived
        enter_epoch(message, training, tx)
        parameters, here = training.parameters(), message.address
        run = training.of_epoch(here.epoch)
        name = f"scores/{here.table_id}/{here.index}"
        received: list[str] = run.find_json(f"{name}/received", [])
        t = np.uint64(parameters.plain_modulus)
        expect(
            here.sender in parameters.banks and here.sender not in received,
            message,
            "not expected from it",
        )
        so_far = run.find_arrays(f"{name}/sum")
        expect(
            so_far is None or so_far["r"].shape == message.residues.shape,
            message,
            "not as many values as another bank sent",
        )
        expect_residues(message, message.residues, message.residues.size, int(t))
        total = message.residues.astype(np.uint64) + (0 if so_far is None else so_far["r"])
        total = (total % t).astype(np.uint32)
        received = [*received, here.sender]
        run.put_json(f"{name}/received", received)
        if len(received) < len(parameters.banks):
            run.put_arrays(f"{name}/sum", r=total)
            return []
        run.delete(f"{name}/sum")
        return [ScoreReply(_address_of_sum(here), total)]


def _address_of_sum(a: Address) -> Address:
    return Address(a.receiver, PAYMENT_NETWORK, a.run_id, a.table_id, a.epoch, a.index)


def _public_key(parameters: RunParameters, run: RunRecords) -> PublicKey:
    return PublicKey(parameters.match_ring, run.get("public key"), run.get("relinearisation key"))

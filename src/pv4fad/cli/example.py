"""`pv4fad example`: six accounts, two banks: counts and a question that one can check by hand.

Real parties, keys and messages, all in memory.  The noise is off, so that the answer is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.cli.console import err, out
from pv4fad.evidence.cells import N_CELLS, N_HIT_CELLS, CountedAccounts
from pv4fad.evidence.classes import CLASSES, counted_sets
from pv4fad.evidence.trusted import trusted_bits, trusted_counts
from pv4fad.lead.federation import Federation, run_parameters
from pv4fad.lead.prepare import cell_counts
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.bank_table import BankRecords
from pv4fad.parties.identity import Identity
from pv4fad.parties.network_stages import TrainingInput
from pv4fad.parties.party import AGGREGATOR, PAYMENT_NETWORK, Party, RunRecords
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.parties.scoring_tables import AskedSet, Round, Tables
from pv4fad.payments.identity import canonical_account, qualified_key
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.scoring_messages import ScoreReply
from pv4fad.protocol.tables import assign_tables
from pv4fad.protocol.wire import Header, decode
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool

PAYMENTS = {"Ada": 0, "Ben": 0, "Cem": 1, "Dia": 1, "Eve": 1, "Fay": 1}
"""To whom, and the label: 1 is anomalous."""
ACCOUNTS = {
    "bank01": {"Ada": "ordinary", "Ben": "mild", "Cem": "severe"},
    "bank02": {"Dia": "ordinary", "Eve": "mild"},
}
"""The class of each bank's accounts; Fay's is not there."""
BICS = {"bank01": "AAAADEFF", "bank02": "BBBBFRPP"}
ASKED = ("Ada", "Fay")
QUESTION = AskedSet((), absent=True)
"""Whether the account is absent."""

STORY = """\
The payment network knows        The banks know
  to Ada   normal                  bank01   Ada ordinary, Ben mild, Cem severe
  to Ben   normal                  bank02   Dia ordinary, Eve mild
  to Cem   anomalous               nobody   Fay
  to Dia   anomalous
  to Eve   anomalous
  to Fay   anomalous

Training counts accounts          by hand             third party   private
  paid normally      present      Ada, Ben      = 2 {third[0][0]:>13}{private[0][0]:>10}
                     mild         Ben           = 1 {third[0][1]:>13}{private[0][1]:>10}
                     severe                     = 0 {third[0][2]:>13}{private[0][2]:>10}
  paid as anomaly    present      Cem, Dia, Eve = 3 {third[1][0]:>13}{private[1][0]:>10}
                     mild         Eve           = 1 {third[1][1]:>13}{private[1][1]:>10}
                     severe       Cem           = 1 {third[1][2]:>13}{private[1][2]:>10}
Of the 3 present the payment network held {own}, the banks {others};
{sum} = {private[1][0]} modulo {modulus}.

Scoring asks one bit              by hand             third party   private
  is Ada absent?                  at bank01     = 0 {third_bits[0]:>13}{bits[0]:>10}
  is Fay absent?                  nobody has it = 1 {third_bits[1]:>13}{bits[1]:>10}
Of the 1 for Fay the payment network held {answer.own}, and bank02 sent {answer.reply};
{answer.own} + {answer.reply} = {bits[1]} modulo {modulus}.

{n_messages} messages, {megabytes:.0f} MB; 5000 accounts take no more: a table has 16384 bins.
"""

_BANK_OF = {name: bank for bank, accounts in ACCOUNTS.items() for name in accounts} | {
    "Fay": "bank02"
}
_CELLS = (N_HIT_CELLS, 0)  # of a payment of label 0, of label 1


@dataclass(frozen=True)
class Found:
    """By either way: the accounts of each set in both cells, and the answers."""

    counts: Sequence[Sequence[int]]
    bits: Sequence[int]


@dataclass(frozen=True)
class Uniform:
    """The two numbers that add up to an answer, as their holders saw them."""

    own: int
    reply: int


@dataclass(frozen=True)
class PrivateResult:
    """What the federation computed, and the shares in which it was held on the way."""

    found: Found
    shares: Sequence[int]  # of the present accounts paid as anomaly: S, then the banks
    answer: Uniform  # of the last question
    modulus: int
    message_bytes: Sequence[int]


def counted_accounts() -> CountedAccounts:
    """Every account counts once: in one cell if it was paid normally, in another if not."""
    keys = np.arange(len(PAYMENTS))
    return CountedAccounts(np.array([_CELLS[label] for label in PAYMENTS.values()]), keys, keys)


def by_a_trusted_third_party() -> Found:
    """With all data in one place."""
    class_of = {name: one for accounts in ACCOUNTS.values() for name, one in accounts.items()}
    atoms = np.array([_atom(class_of[name]) if name in class_of else -1 for name in PAYMENTS])
    counts = trusted_counts(counted_accounts(), atoms, counted_sets("fine", "class"))
    asked = atoms[[list(PAYMENTS).index(name) for name in ASKED]]
    bits = trusted_bits(asked, QUESTION.atoms, absent=QUESTION.absent)
    return Found(counts[list(_CELLS)].tolist(), bits.tolist())


def by_the_federation() -> PrivateResult:
    """With every party keeping its data to itself."""
    directory = {bic: bank for bank, bic in BICS.items()}
    tables = assign_tables([_key(name) for name in PAYMENTS], directory, 1, broadcast=False)
    sets = (counted_sets("fine", "class"),) * N_CELLS
    data = TrainingInput(cell_counts(counted_accounts()), sets, tables)
    parameters = run_parameters(
        data,
        {bank: len(accounts) for bank, accounts in ACCOUNTS.items()},
        bound=1,
        epsilon="none",
        noise="none",
        honest_banks=1,
        mode="counts",
        counted="fine",
        absent="class",
    )
    pool = WorkerPool(0)  # one block per bank: done before worker processes would have started
    network = PaymentNetwork(MemoryStore(PAYMENT_NETWORK), pool)
    aggregator = Aggregator(AGGREGATOR, MemoryStore(AGGREGATOR), pool)
    federation = Federation(network, _banks(pool), aggregator)
    watch = _Watch(federation, parameters.run_id)
    federation.train(parameters, data, watch)
    questions = Round([_key(name) for name in ASKED], (QUESTION,), np.zeros(len(ASKED), np.int64))
    bits = federation.ask(parameters.run_id, questions, watch)
    own = _arrays(network, parameters.run_id, "sums")["p"][_CELLS[1], 0]
    first_sum = _CELLS[1] * parameters.sizes.n_sets
    theirs = [_arrays(bank, parameters.run_id, "sums")["q"][first_sum] for bank in federation.banks]
    counts = network.counts(parameters.run_id)[list(_CELLS)]
    return PrivateResult(
        Found(counts.tolist(), bits.tolist()),
        [int(one) for one in (own, *theirs)],
        watch.answer,
        parameters.plain_modulus,
        watch.sizes,
    )


class _Watch:
    """Sizes of messages; and, just before they are added up, the parts of the last answer."""

    def __init__(self, federation: Federation, run_id: str) -> None:
        self.sizes: list[int] = []
        self.answer = Uniform(0, 0)
        self._network, self._run_id = federation.payment_network, run_id
        (self._bank,) = (one for one in federation.banks if one.name == _BANK_OF[ASKED[-1]])

    def __call__(self, message: Header, n_bytes: int) -> None:
        self.sizes.append(n_bytes)
        here = message.address
        if message.kind == ScoreReply.kind and here.sender == self._bank.name:
            (reply,) = (
                one
                for one in map(decode, self._bank.unanswered())
                if isinstance(one, ScoreReply) and one.address == here
            )
            with self._network.store.transaction() as tx:
                training = RunRecords(tx, self._run_id)
                place = Tables(training).places_of([_key(ASKED[-1])])[0, 1]
                batch = training.of_epoch(here.epoch)
                own = batch.get_arrays(f"totals/{here.table_id}/0")["totals"][0, place]
            self.answer = Uniform(int(own), int(reply.residues[place]))


def _banks(pool: WorkerPool) -> list[Bank]:
    identities = {bank: Identity.generate(bank) for bank in ACCOUNTS}
    signing_keys = {bank: one.public().signing_key for bank, one in identities.items()}
    banks = []
    for bank, accounts in ACCOUNTS.items():
        store = MemoryStore(bank)
        with store.transaction() as tx:
            set_limit(tx, "none", datetime.now(UTC))
        records = BankRecords(
            tuple(qualified_key(BICS[bank], name) for name in accounts),
            tuple(canonical_account(name).encode() for name in accounts),
            np.array([[_atom(one)] for one in accounts.values()], np.int16),
            "example",
        )
        identity = identities[bank]
        banks.append(
            Bank(bank, store, pool, records=records, identity=identity, signing_keys=signing_keys)
        )
    return banks


def _atom(name: str) -> int:
    return CLASSES.index(name)


def _key(name: str) -> tuple[str, str]:
    return BICS[_BANK_OF[name]], canonical_account(name)


def _arrays(party: Party, run_id: str, name: str) -> dict[str, NDArray[Any]]:
    with party.store.transaction() as tx:
        return RunRecords(tx, run_id).get_arrays(name)


def example() -> None:
    """Six accounts, two banks: private counts and one question that you can check by hand."""
    plain = by_a_trusted_third_party()
    with err.status("six accounts, two banks, real keys: a few seconds ..."):
        private = by_the_federation()
    out.print(report(plain, private), markup=False, soft_wrap=True, end="")


def report(plain: Found, private: PrivateResult) -> str:
    """The example as text."""
    own, *others = private.shares
    return STORY.format(
        third=plain.counts,
        private=private.found.counts,
        third_bits=plain.bits,
        bits=private.found.bits,
        own=own,
        others=" and ".join(map(str, others)),
        sum=" - ".join(map(str, private.shares)),
        answer=private.answer,
        modulus=private.modulus,
        n_messages=len(private.message_bytes),
        megabytes=sum(private.message_bytes) / 1e6,
    )

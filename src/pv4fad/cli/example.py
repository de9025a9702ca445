"""`pv4fad example`: six accounts, two banks: counts and a question that one can check by hand.

Real parties, keys and messages, all in memory.  The noise is off, so that the answer is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pv4fad.cli.console import err, out
from pv4fad.evidence.cells import CountedAccounts, n_cells, n_hit_cells
from pv4fad.evidence.classes import counted_sets
from pv4fad.evidence.trusted import trusted_bits, trusted_counts
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.lead.federation import Federation
from pv4fad.lead.simulate import simulate
from pv4fad.payments.identity import canonical_account
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.count.state import BankSums, OwnSums
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.protocol.score.inputs import AskedSet, Round
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.score.state import Totals
from pv4fad.protocol.score.tables import Tables
from pv4fad.protocol.tables import assign_tables, hashed_id
from pv4fad.protocol.wire import Header, decode
from pv4fad.store.records import Records, stored
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

{n_messages} messages, {megabytes:.0f} MB; 1000 accounts take no more: a table has room for them.
"""

_BANK_OF = {name: bank for bank, accounts in ACCOUNTS.items() for name in accounts} | {
    "Fay": "bank02"
}
_SETS = counted_sets("fine", "class", len(SCHEMA.record.kind_names))
_CELLS = (n_hit_cells(SCHEMA.n_sides), 0)  # of a payment of label 0, of label 1


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
    cells = np.array([_CELLS[label] for label in PAYMENTS.values()])
    return CountedAccounts(cells, keys, keys, n_cells(SCHEMA.n_sides))


def by_a_trusted_third_party() -> Found:
    """With all data in one place."""
    class_of = {name: one for accounts in ACCOUNTS.values() for name, one in accounts.items()}
    atoms = np.array([_atom(class_of[name]) if name in class_of else -1 for name in PAYMENTS])
    counts = trusted_counts(counted_accounts(), atoms, _SETS)
    asked = atoms[[list(PAYMENTS).index(name) for name in ASKED]]
    bits = trusted_bits(asked, QUESTION.atoms, absent=QUESTION.absent)
    return Found(counts[list(_CELLS)].tolist(), bits.tolist())


def by_the_federation() -> PrivateResult:
    """With every party keeping its data to itself."""
    directory = {bic: bank for bank, bic in BICS.items()}
    tables = assign_tables([_key(name) for name in PAYMENTS], directory, 1, broadcast=False)
    counted = counted_accounts()
    data = TrainingInput(cell_counts(counted), (_SETS,) * counted.n_cells, tables)
    parameters = run_parameters(
        data,
        {bank: len(accounts) for bank, accounts in ACCOUNTS.items()},
        SCHEMA,
        bound=1,
        epsilon="none",
        noise="none",
        honest_banks=1,
        mode="counts",
        counted="fine",
        absent="class",
    )
    pool = WorkerPool(0)  # one block per bank: done before worker processes would have started
    federation = simulate(_records(), pool, first_limit="none")
    network = federation.payment_network
    watch = _Watch(federation, parameters.run_id)
    federation.train(parameters, data, watch)
    questions = Round([_key(name) for name in ASKED], (QUESTION,), np.zeros(len(ASKED), np.int64))
    bits = federation.ask(parameters.run_id, questions, watch)
    own = stored(network.store, parameters.run_id, OwnSums).p[_CELLS[1], 0]
    first_sum = _CELLS[1] * parameters.sizes.n_sets
    run_id = parameters.run_id
    theirs = [stored(bank.store, run_id, BankSums).q[first_sum] for bank in federation.banks]
    counts = network.counts(parameters.run_id)[list(_CELLS)]
    return PrivateResult(
        Found(counts.tolist(), bits.tolist()),
        [int(share) for share in (own, *theirs)],
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
                training = Records(tx, self._run_id)
                place = Tables(training).places_of([_key(ASKED[-1])])[0, 1]
                batch = training.of_epoch(here.epoch)
                own = batch.get(Totals, here.table_id, 0).totals[0, place]
            self.answer = Uniform(int(own), int(reply.residues[place]))


def _records() -> dict[str, BankRecords]:
    return {
        bank: BankRecords(
            tuple(hashed_id(_key(name)) for name in accounts),
            tuple(canonical_account(name).encode() for name in accounts),
            np.array([_class(kind) for kind in accounts.values()], np.int16),
            SCHEMA,
            "example",
        )
        for bank, accounts in ACCOUNTS.items()
    }


def _atom(kind: str) -> int:
    return SCHEMA.atoms("class").index(kind)


def _class(kind: str) -> int:
    """Some class of this kind."""
    return SCHEMA.atom_of_class("class").index(_atom(kind))


def _key(name: str) -> tuple[str, str]:
    return BICS[_BANK_OF[name]], canonical_account(name)


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

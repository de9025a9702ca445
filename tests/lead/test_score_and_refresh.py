"""Scoring and refreshing, disturbed in every possible way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from tests.kit.class_world import ClassWorld, trained_class_world
from tests.kit.forest_case import N_CLASSES
from tests.kit.scoring_worlds import TRAIN_ROWS, AnyWorld, again, expected_votes, rows_of, trained
from tests.kit.world import (
    BICS,
    World,
    bank_name,
    bank_records,
    scoring_input,
    secret_key_of,
)

from pv4fad.errors import DataError, OrderError
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.lead.asking import Scoring
from pv4fad.lead.refresh import Matching, refresh
from pv4fad.lead.scoring_job import UNKNOWN, BatchAnswers, JobNotes, RoundAsked, ScoringNotes
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.protocol.propose.state import NetworkSecret
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.score.state import KnownBits, LayersAnswered, Questions
from pv4fad.run.meter import Meter
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore


class Killed(BaseException):
    """The process dies."""


class MortalStore(MemoryStore):
    """Its process dies as soon as anything new is in it."""

    def __init__(self, *what) -> None:
        super().__init__(*what)
        self.committed = self.snapshot()

    def _commit(self) -> None:
        before, self.committed = self.committed, self.snapshot()
        super()._commit()
        if before != self.committed:
            raise Killed

    def _rollback(self) -> None:
        # What was committed stays, whatever happens to the process.
        if self.snapshot() != self.committed:
            super()._rollback()


SEALED = {"seed": 6, "n_banks": 1, "mode": "routed", "model": "sealed"}
ONE_BANK = {"seed": 5, "n_banks": 1}
WORLDS = {
    "one bank": ONE_BANK,
    "two banks, a broadcast table": {"seed": 5, "n_banks": 2, "mode": "mixed"},
}


def mortal(world: AnyWorld) -> AnyWorld:
    """A copy whose processes die all the time."""
    return again(world, store_of=MortalStore)


class Run(Scoring):
    """The scoring of a world, or its refresh."""

    def __init__(self, world: World | ClassWorld, meter) -> None:
        directory = {BICS[n]: bank_name(n) for n in range(len(world.federation.banks))}
        self.where = (world.federation, world.parameters, directory, meter)
        super().__init__(*self.where)

    def refresh(self) -> None:
        refresh(*self.where)

    def require_same_accounts(self) -> None:
        Matching(*self.where).require_same_accounts()


def run_of(world: World | ClassWorld, meter=None) -> Run:
    return Run(world, Meter() if meter is None else meter)


def until_done(world: World | ClassWorld, work) -> tuple[object, int]:
    """Start it again whenever it is killed: the result, and how often that was."""
    for killed in range(1000):
        try:
            return work(run_of(again(world, copies=False))), killed
        except Killed:
            pass
    raise AssertionError("it never ends")


def names_of(store, *kinds) -> list[str]:
    """The names of all records of some kinds, of whatever run and epoch."""
    names = {kind.__name__ for kind in kinds}
    return [name for name in store.keys("") if names & set(name.split("/"))]


def layers_answered(world: World | ClassWorld) -> list[bytes]:
    """The counters of all banks."""
    return [
        bank.store.get(name)
        for bank in world.federation.banks
        for name in names_of(bank.store, LayersAnswered)
    ]


def interrupted_after(world: World | ClassWorld, kind: str, work, *, n: int = 1) -> None:
    """Do it until the n-th message of this kind is on its way, and is lost."""
    seen = []

    class Interrupts(Meter):
        def __call__(self, message, size_bytes) -> None:
            seen.extend([message] * (message.kind == kind))
            if len(seen) == n:
                raise Killed

    with pytest.raises(Killed):
        work(run_of(world, Interrupts()))


# Questions.

SETS = (AskedSet((2,), False), AskedSet((1,), False), AskedSet((), True))
"""Severe, mild, absent: kinds of the default model."""


class Asks:
    """Asks in every round about the accounts it is given, unless the answer follows already."""

    sets = SETS

    def __init__(self, accounts: list[int], known: np.ndarray) -> None:
        self.accounts, self.known = np.array(accounts, np.int64), known.copy()

    def ask(self, number: int) -> np.ndarray:
        mine = self.known[self.accounts]
        return self.accounts[(mine[:, number] == UNKNOWN) & ~(mine == 1).any(axis=1)]

    def take(self, number: int, accounts: np.ndarray, bits: np.ndarray) -> None:
        assert np.array_equal(accounts, self.ask(number))
        self.known[accounts, number] = bits


NEW_ACCOUNTS = [(BICS[0], "900001"), (BICS[0], "900002")]


def keys_of(world: ClassWorld) -> list:
    """All of training, and some that nobody has met."""
    return [*world.account_keys, *NEW_ACCOUNTS]


def scoring(world: ClassWorld, accounts: list[int], fingerprint: str = "some transactions"):
    """Work that scores payments of these accounts: what is known in the end."""
    keys = keys_of(world)

    def work(run: Run) -> np.ndarray:
        run.begin(fingerprint, keys, n_sets=len(SETS))
        asking = Asks(accounts, run.known_bits(keys, len(SETS)))
        run.ask(keys, asking)
        return asking.known

    return work


def truth(world: ClassWorld) -> np.ndarray:
    """(accounts, sets), of those in `keys_of`."""
    atoms = np.append(world.atoms(), [-1] * len(NEW_ACCOUNTS))
    return np.stack([trusted_bits(atoms, one.atoms, absent=one.absent) for one in SETS], axis=1)


def expected(world: ClassWorld, accounts: list[int]) -> np.ndarray:
    """What a scoring of these accounts is told: as `Asks` asks, in the clear."""
    asking = Asks(accounts, np.full((len(keys_of(world)), len(SETS)), UNKNOWN))
    for number in range(len(SETS)):
        some = asking.ask(number)
        asking.take(number, some, truth(world)[some, number])
    return asking.known


@pytest.fixture
def asked(monkeypatch) -> list:
    """All questions that rounds begin with: (account, set), over all processes of a test."""
    score, questions = PaymentNetwork.score, []

    def noting(network, run_id, data):
        questions.extend((key, data.sets[n]) for key, n in zip(data.keys, data.set_of, strict=True))
        return score(network, run_id, data)

    monkeypatch.setattr(PaymentNetwork, "score", noting)
    return questions


def some_accounts(world: ClassWorld) -> list[int]:
    """Of all kinds, in all tables, and the new ones."""
    n = len(world.keys)
    return [*range(0, n, 2), n, n + 1]


@dataclass(frozen=True)
class Scored:
    """A scoring that nothing has disturbed."""

    known: np.ndarray
    layers: list[bytes]
    seen: list[tuple]
    """Kind, parties and size of every message."""


def scored(world: ClassWorld, accounts: list[int]) -> Scored:
    seen = []

    class Sees(Meter):
        def __call__(self, message, size_bytes) -> None:
            here = message.address
            seen.append((message.kind, here.sender, here.receiver, here.table_id, size_bytes))
            super().__call__(message, size_bytes)

    known = scoring(world, accounts)(run_of(world, Sees()))
    return Scored(known, layers_answered(world), seen)


@cache
def undisturbed(name: str) -> Scored:
    """Of some accounts."""
    world = again(trained_class_world(**WORLDS[name]))
    return scored(world, some_accounts(world))


@cache
def _begun() -> ClassWorld:
    world = again(trained_class_world(**ONE_BANK))
    run_of(world).begin("some transactions", keys_of(world), n_sets=len(SETS))
    return world


def begun_world() -> ClassWorld:
    """One bank; `scoring` has begun, with its new accounts matched, and nothing asked."""
    return again(_begun())


@pytest.mark.parametrize("name", WORLDS)
def test_killed_after_every_write_a_scoring_ends_as_if_undisturbed(name, asked):
    world = mortal(trained_class_world(**WORLDS[name]))
    accounts = some_accounts(world)
    known, killed = until_done(world, scoring(world, accounts))
    assert killed > 20
    assert np.array_equal(known, expected(world, accounts))
    assert all((known[accounts] == 1).any(axis=0)), "no account of some kind"
    assert len(asked) == len(set(asked)) == (known != UNKNOWN).sum()
    assert np.array_equal(undisturbed(name).known, known)
    assert layers_answered(world)
    assert layers_answered(world) == undisturbed(name).layers


def test_over_several_scorings_nothing_is_asked_twice(asked):
    world = begun_world()
    first, second = some_accounts(world), list(range(12))
    scoring(world, first)(run_of(world))
    run_of(world).finish()
    before = len(asked)
    known = scoring(world, second, "others")(run_of(world))
    assert np.array_equal(known[second], expected(world, second)[second])
    assert len(asked) == len(set(asked)) > before
    # The same transactions once more: nothing is left to ask, and the answers are there.
    run_of(world).finish()
    before = len(asked)
    assert np.array_equal(scoring(world, first, "others")(run_of(world)), known)
    assert len(asked) == before
    n_known, positive = run_of(world).n_known()
    assert n_known == len({*first, *second})
    assert positive == truth(world)[sorted({*first, *second})].any(axis=1).sum()


def test_what_is_noted_is_asked_no_more_until_the_results_are_stored(asked):
    """Predictions that were not written: the same call has all answers still."""
    world = begun_world()
    work = scoring(world, some_accounts(world))
    known, before = work(run_of(world)), len(asked)
    answered = layers_answered(world)
    assert np.array_equal(work(run_of(again(world, copies=False))), known)
    assert (len(asked), layers_answered(world)) == (before, answered)


@pytest.mark.parametrize("lost", ["score-query", "score-reply"])
@pytest.mark.parametrize("round_", [1, 2])
def test_other_transactions_take_the_place_of_an_interrupted_scoring(asked, lost, round_):
    """What was asked for the first one is known to the second, and stays known."""
    world = begun_world()
    first, second = [0, 2, 4, 6, 8, 10], [4, 5, 6, 7, 8, 9]
    n_tables = 2  # of the match in training, and of that for new accounts
    interrupted_after(world, lost, scoring(world, first), n=(round_ - 1) * n_tables + 1)
    interrupted = len(asked)
    known = scoring(world, second, "others")(run_of(again(world, copies=False)))
    assert np.array_equal(known[second], expected(world, second)[second])
    assert 0 < interrupted < len(asked) == len(set(asked))
    assert (known != UNKNOWN).sum() == len(asked)
    right = (known == truth(world)) | (known == UNKNOWN)
    assert right.all()
    run_of(world).finish()
    assert np.array_equal(run_of(world).known_bits(keys_of(world), len(SETS)), known)


def test_notes_of_a_scoring_hold_nothing_but_bits_and_go_with_it():
    world = begun_world()
    scoring(world, [0, 1, 2])(run_of(world))
    store = world.federation.payment_network.store
    assert names_of(store, BatchAnswers)
    assert names_of(store, RoundAsked)
    run_of(world).finish()
    assert not names_of(store, ScoringNotes, RoundAsked, BatchAnswers, Questions)
    assert names_of(store, KnownBits)


def test_a_refresh_forgets_what_was_known(asked):
    world = begun_world()
    accounts = some_accounts(world)
    known = scoring(world, accounts)(run_of(world))
    run_of(world).finish()
    run_of(world).refresh()
    assert run_of(world).n_known() == (0, 0)
    store = world.federation.payment_network.store
    assert not names_of(store, KnownBits)
    n_asked = len(asked)
    assert np.array_equal(scoring(world, accounts)(run_of(world)), known)
    assert asked[n_asked:] == asked[:n_asked] != []


def test_a_refresh_in_the_middle_of_a_scoring_forgets_that_too():
    world = begun_world()
    interrupted_after(world, "score-reply", scoring(world, [0, 1, 2, 3]))
    run_of(again(world, copies=False)).refresh()
    assert run_of(world).n_known() == (0, 0)
    store = world.federation.payment_network.store
    assert not names_of(store, KnownBits, ScoringNotes, RoundAsked, BatchAnswers)


@pytest.mark.parametrize("kept", [True, False], ids=["over", "under way"])
def test_answers_are_not_given_to_other_accounts(kept):
    """As many as before, and not the same: another machine's last digits can do that."""
    world = begun_world()
    if kept:
        scoring(world, [0, 2, 4])(run_of(world))
    else:
        interrupted_after(world, "score-query", scoring(world, [0, 2, 4]))
    with pytest.raises(OrderError, match="begun with other questions"):
        scoring(world, [1, 3, 5])(run_of(again(world, copies=False)))
    # What was answered stays known, under the right names.
    known = scoring(world, [1, 3, 5], "others")(run_of(again(world, copies=False)))
    assert ((known == truth(world)) | (known == UNKNOWN)).all()
    assert (known[[0, 2, 4]] != UNKNOWN).any()


def test_questions_need_a_scoring_that_was_begun():
    world = again(trained_class_world(**ONE_BANK))
    asking = Asks([0], np.full((len(world.keys), len(SETS)), UNKNOWN))
    with pytest.raises(OrderError, match="no scoring has been begun"):
        run_of(world).ask(world.account_keys, asking)


# What everybody can see of a scoring.


def test_the_number_of_rounds_and_all_messages_are_the_same_for_every_batch():
    """Nobody asked about, or many accounts: an empty round looks like any other."""
    name = "two banks, a broadcast table"
    of_nobody = scored(again(trained_class_world(**WORLDS[name])), []).seen
    assert of_nobody == undisturbed(name).seen
    queries = [one for one in of_nobody if one[0] == "score-query"]
    # To each bank about its own and the broadcast table, of training and of the new accounts.
    assert len(queries) == len(SETS) * 2 * (2 + 2)


# Votes of the paper's model.


def voting(world: World, case, fingerprint: str = "some transactions", batch_size: int = 12):
    """Work that scores the transactions of a case."""
    data = scoring_input(world, case)

    def work(run: Run) -> np.ndarray:
        run.begin(fingerprint, data.keys, batch_size=batch_size)
        return run.votes(data.codes, data.keys, data.key_of, layers=2)

    return work


def test_killed_after_every_write_votes_end_as_if_undisturbed():
    world = mortal(trained(**SEALED))
    case = rows_of(world.case, slice(50, 72))  # the last of training, and some with new accounts
    votes, killed = until_done(world, voting(world, case))
    assert killed > 20
    assert np.array_equal(votes, expected_votes(world, case))
    other = again(trained(**SEALED))
    assert np.array_equal(voting(other, case)(run_of(other)), votes)
    assert layers_answered(world)
    assert layers_answered(world) == layers_answered(other)


def test_votes_are_not_asked_for_again_until_the_results_are_stored():
    world = again(trained(**SEALED))
    case = rows_of(world.case, slice(0, 20))
    votes = voting(world, case)(run_of(world))
    answered = layers_answered(world)
    # Also with another size of batches: results do not depend on it.
    assert np.array_equal(voting(world, case, batch_size=5)(run_of(world)), votes)
    assert layers_answered(world) == answered
    run_of(world).finish()
    assert np.array_equal(voting(world, case, batch_size=5)(run_of(world)), votes)
    assert layers_answered(world) != answered
    assert run_of(world).n_known() == (0, 0)


# Refresh.


def test_killed_after_every_write_a_refresh_is_made_once_and_old_keys_are_gone():
    world = mortal(trained(**SEALED))
    case = rows_of(world.case, slice(0, TRAIN_ROWS))
    network, run_id = world.federation.payment_network, world.parameters.run_id
    old = [secret_key_of(bank, run_id) for bank in world.federation.banks]
    notes = JobNotes(network.store, run_id)

    def refresh_once(run):
        # Killed just after the last note, it was over: asked once more, it would match once more.
        if network.matches(run_id) == [0] or notes.refresh() is not None:
            run.refresh()

    _, killed = until_done(world, refresh_once)
    assert killed > 8
    world = again(world)
    network = world.federation.payment_network
    assert network.matches(run_id) == [1]
    for bank, key in zip(world.federation.banks, old, strict=True):
        assert not any(key in one for one in bank.store.snapshot().values())
    with network.store.transaction() as tx:
        assert not Records(tx, run_id).has(NetworkSecret)
    votes = voting(world, case, batch_size=60)(run_of(world))
    assert np.array_equal(votes, expected_votes(world, case))


def test_records_that_change_while_they_are_matched_are_all_matched_again():
    """Half a table with one version of the accounts, half with another: never."""
    world = again(trained(**SEALED))
    case = rows_of(world.case, slice(0, 20))
    interrupted_after(world, "blinded-indicators", Run.refresh)
    others = {key: (atom + 1) % N_CLASSES for key, atom in case.records.items()}
    case = replace(case, records=others)
    for bank, party in enumerate(world.federation.banks):
        changed = replace(bank_records(case, bank), fingerprint="version 2")
        party.replace_records(changed)
    with pytest.raises(DataError, match=r"records of bank01 are not those.*pv4fad refresh"):
        voting(world, case)(run_of(world))
    with pytest.raises(DataError, match="pv4fad refresh"):
        run_of(world).require_same_accounts()
    run_of(world).refresh()
    run_of(world).require_same_accounts()
    votes = voting(world, case, batch_size=60)(run_of(world))
    assert np.array_equal(votes, expected_votes(world, case))
    assert not np.array_equal(votes, expected_votes(world, rows_of(world.case, slice(0, 20))))

"""Questions: every bit equals the trusted third party's, whatever table the account is in."""

import numpy as np
import pytest
from tests.kit.class_world import make_class_world, trained_class_world
from tests.kit.recording import changed
from tests.kit.scoring_worlds import TRAIN_ROWS, again, rows_of, trained
from tests.kit.world import scoring_input

from pv4fad.errors import OrderError, ProtocolError
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.protocol.match.state import OpenedBlock, PlacedTable
from pv4fad.protocol.score import queries as network_queries
from pv4fad.protocol.score.inputs import AskedSet, Round, ScoringInput
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.score.steps import bit_queries
from pv4fad.protocol.wire import decode
from pv4fad.store.records import Records

OF_CLASSES = (AskedSet((2,), False), AskedSet((2,), True), AskedSet((1, 2), True))
WITHOUT_ABSENT = (AskedSet((1,), False), AskedSet((0, 1), False))
WORLDS = {
    "one bank": ({"n_banks": 1}, OF_CLASSES),
    "two banks, routed and broadcast": ({"n_banks": 2, "mode": "mixed"}, OF_CLASSES),
    "three banks, all broadcast": ({"n_banks": 3, "mode": "broadcast"}, OF_CLASSES),
    "absent is ordinary": ({"n_banks": 2, "mode": "mixed", "absent": "ordinary"}, WITHOUT_ABSENT),
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_bit_equals_that_of_a_trusted_third_party(name):
    """Absent accounts, accounts of institutions outside, accounts at several banks."""
    options, sets = WORLDS[name]
    world = trained_class_world(seed=5, **options)
    everybody = np.arange(len(world.keys))
    atoms = world.atoms()
    assert len(set(atoms)) == (4 if options.get("absent") is None else 3)
    for asked in sets:
        bits = world.ask(everybody, asked)
        assert np.array_equal(bits, world.true_bits(everybody, asked))
        assert 0 < bits.sum() < len(bits)


def test_accounts_in_one_round_can_have_different_sets():
    world = trained_class_world(seed=5, n_banks=1)
    accounts = np.arange(len(world.keys))
    questions = world.round(accounts, OF_CLASSES[0])
    set_of = accounts % 3
    questions = type(questions)(questions.keys, OF_CLASSES, set_of)
    bits = world.federation.ask(world.parameters.run_id, questions)
    expected = [world.true_bits(accounts, one) for one in OF_CLASSES]
    assert np.array_equal(bits, np.choose(set_of, expected))


def test_a_round_without_questions_has_the_messages_of_any_other():
    world = trained_class_world(seed=5, n_banks=2, mode="mixed")
    seen = []
    for accounts in (np.arange(0), np.arange(7)):
        sizes: list[tuple] = []
        world.ask(accounts, OF_CLASSES[2], lambda m, size, to=sizes: to.append((m.kind, size)))
        seen.append(sizes)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 4


def test_only_slots_that_are_asked_about_have_coefficients(monkeypatch):
    """Whatever the answer would be; and the constant for absent accounts counts once per table."""
    world = trained_class_world(seed=5, n_banks=2, mode="mixed")
    asked, jobs = np.arange(0, len(world.keys), 3), []
    monkeypatch.setattr(
        network_queries, "bit_queries", lambda job: jobs.append(job) or bit_queries(job)
    )
    for one in (OF_CLASSES[2], AskedSet((0, 1, 2), False)):
        jobs.clear()
        world.ask(asked, one)
        # bank01: its table and the broadcast one, then bank02; small ones, of one block each.
        assert len(jobs) == 4
        tables = ["bank01", "broadcast", "bank02", "broadcast"]
        for number, table_id in enumerate(tables):
            job = jobs[number]
            factors, constant = job.votes_sets[0], job.votes_rest[0]
            table = world.record(world.federation.payment_network, PlacedTable, table_id)
            bins = np.sort(table.bins[np.isin(table.keys, asked)])
            assert 0 < len(bins) < len(table.bins)
            assert np.array_equal(np.flatnonzero(factors.any(axis=0)), bins)
            of_absent = bins if one.absent and number != 3 else []
            assert np.array_equal(np.flatnonzero(constant), of_absent)


def test_absent_and_ordinary_cannot_be_told_apart_where_they_are_the_same():
    """The banks provide no share for ordinary: shares exist for two classes only."""
    world = trained_class_world(seed=5, n_banks=2, mode="mixed", absent="ordinary")
    assert world.parameters.sizes.n_atoms == 2
    network = world.federation.payment_network
    with network.store.transaction() as tx:
        records = Records(tx, world.parameters.run_id)
        opened = [records.get(OpenedBlock, *place) for place in records.places(OpenedBlock)]
    assert opened
    assert {len(block.u) for block in opened} == {2}
    present = {bare for (_, bare), atom in world.records.items() if atom == -1}
    assert present, "no ordinary account"


def test_nobody_is_asked_about_twice_in_a_round():
    world = trained_class_world(seed=5, n_banks=1)
    with pytest.raises(OrderError, match="twice in one round"):
        world.ask(np.array([0, 1, 0]), OF_CLASSES[0])


# The paper's model with released labels: sets of flags.

OF_FLAGS = (
    AskedSet((0,), False),
    AskedSet((1, 3, 4, 10), False),
    AskedSet(tuple(range(1, 11)), True),
)


RELEASED = {"seed": 6, "n_banks": 1, "model": "released"}
RELEASED_MIXED = {"seed": 7, "n_banks": 2, "mode": "mixed", "n_sets": 2, "model": "released"}


@pytest.mark.parametrize("options", [RELEASED, RELEASED_MIXED])
def test_bits_about_sets_of_classes_equal_the_classes_of_the_records(options):
    world = again(trained(**options))
    case = rows_of(world.case, slice(0, TRAIN_ROWS))
    keys = scoring_input(world, case).keys
    found = case.atoms()[np.unique(case.accounts.key_of)]
    assert {-1, 0} < set(found)
    expected = [trusted_bits(found, one.atoms, absent=one.absent) for one in OF_FLAGS]
    for turn in range(len(OF_FLAGS)):
        set_of = (np.arange(len(keys)) + turn) % len(OF_FLAGS)
        bits = world.federation.ask(world.parameters.run_id, Round(keys, OF_FLAGS, set_of))
        assert np.array_equal(bits, np.choose(set_of, expected))
        assert 0 < bits.sum() < len(bits)


def test_votes_cannot_be_asked_of_a_model_with_released_labels():
    world = again(trained(**RELEASED))
    data = scoring_input(world, rows_of(world.case, slice(0, 2)))
    with pytest.raises(OrderError, match="mode released is not scored in this way"):
        world.federation.payment_network.score(world.parameters.run_id, data)


def test_votes_cannot_be_asked_of_a_model_that_has_counts():
    world = trained_class_world(seed=5, n_banks=1)
    data = ScoringInput(np.zeros((1, 1), np.int32), world.account_keys[:1], np.zeros((1, 2), int))
    with pytest.raises(OrderError, match="not scored in this way"):
        world.federation.payment_network.score(world.parameters.run_id, data)


@pytest.mark.parametrize("slot", ["asked about", "that asks nothing"])
def test_an_answer_that_is_no_bit_is_refused(slot):
    """A bank that shifts one slot of its reply is noticed, whichever slot it is."""
    world = make_class_world(6, n_banks=1)
    world.train()
    (bank,), network = world.federation.banks, world.federation.payment_network
    bins = world.record(network, PlacedTable, "bank01").bins
    used = int(bins[0])
    free = int(np.setdiff1d(np.arange(100), bins)[0])
    handle, where = bank.handle, used if slot == "asked about" else free

    def shifted(data: bytes) -> list[bytes]:
        replies = [decode(one) for one in handle(data)]
        return [
            changed(one, residues=_plus(one.residues, where, world.parameters.plain_modulus))
            if isinstance(one, ScoreReply)
            else changed(one)
            for one in replies
        ]

    bank.handle = shifted
    with pytest.raises(ProtocolError, match="neither 0 nor 1, or a slot that asked nothing"):
        world.ask(np.arange(len(world.keys)), OF_CLASSES[0])


def _plus(residues: np.ndarray, where: int, t: int) -> np.ndarray:
    shifted = residues.copy()
    shifted[where] = (int(shifted[where]) + 2) % t
    return shifted

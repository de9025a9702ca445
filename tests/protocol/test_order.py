"""The order of the protocol: what its tables say is what the parties take, and all there is."""

import importlib
import pkgutil

import pytest
from tests.kit.class_world import make_class_world
from tests.kit.world import make_world

import pv4fad.protocol
from pv4fad.protocol.compare.messages import EncryptedDigits, LabelMasks
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.live.messages import LiveQuery, LiveRefusal, LiveReply
from pv4fad.protocol.match.messages import (
    EncryptedTable,
    IndicatorPlanes,
    RemainderBits,
    TablesInForce,
    ValueDigits,
)
from pv4fad.protocol.order import (
    LIVE,
    ROWS,
    accepted_by,
    chain_of,
    messages_of,
    phase_of,
    receivers_of,
)
from pv4fad.protocol.propose.inputs import match_parameters
from pv4fad.protocol.propose.messages import Roster, RunProposal
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK
from pv4fad.protocol.score.messages import MeteredReply, OwnPart, ScoreQuery, ScoreReply
from pv4fad.protocol.score.plan import Batch, ScoringPlan
from pv4fad.protocol.wire import Address, Message, encode, id_of, read_header

ROUNDS = (EncryptedTable, ValueDigits, RemainderBits, IndicatorPlanes)


def test_every_kind_of_message_has_a_row():
    for module in pkgutil.walk_packages(pv4fad.protocol.__path__, "pv4fad.protocol."):
        importlib.import_module(module.name)
    kinds = {cls for cls in Message.__subclasses__() if cls.__module__.startswith("pv4fad.")}
    in_rows = {kind for row in ROWS for kind in (row.message, row.answer) if kind is not None}
    assert in_rows == kinds


def test_the_aggregator_takes_six_kinds_of_messages():
    assert accepted_by(AGGREGATOR) == {
        RunProposal: (PAYMENT_NETWORK,),
        NoisySums: (BANK,),
        EncryptedDigits: (PAYMENT_NETWORK,),
        ScoreReply: (BANK,),
        OwnPart: (PAYMENT_NETWORK,),
        MeteredReply: (BANK,),
    }


def test_live_messages_pass_the_journals_of_parties_by():
    assert {row.message for row in LIVE} == {LiveQuery}
    for role in (BANK, PAYMENT_NETWORK, AGGREGATOR):
        assert not {LiveQuery, LiveReply, LiveRefusal} & set(accepted_by(role))


@pytest.mark.parametrize("role", [BANK, PAYMENT_NETWORK, AGGREGATOR])
def test_nobody_takes_messages_from_its_own_role(role):
    """Banks in particular: what they tell each other, the payment network relays."""
    assert accepted_by(role)
    assert all(role not in senders for senders in accepted_by(role).values())


def test_a_run_is_proposed_to_everybody_and_masks_go_where_the_labels_belong():
    """The aggregator knows a run from training: a further match is not proposed to it."""
    released, sealed = (make_world(1, n_banks=2, model=model) for model in ("released", "sealed"))
    banks = ["bank01", "bank02"]
    assert receivers_of(sealed.parameters, RunProposal) == [AGGREGATOR, *banks]
    assert receivers_of(sealed.parameters, LabelMasks) == banks
    assert receivers_of(released.parameters, LabelMasks) == [PAYMENT_NETWORK]
    accounts = {bank.name: bank.n_accounts for bank in sealed.federation.banks}
    match, _ = match_parameters(sealed.parameters, sealed.data.tables, accounts, 1)
    assert receivers_of(match, RunProposal) == receivers_of(match, TablesInForce) == banks


def test_a_chain_is_the_roster_four_rounds_of_blocks_and_the_products():
    parameters = make_class_world(1, n_banks=2, mode="mixed").parameters
    for bank in parameters.banks:
        steps = chain_of(parameters, bank)
        n_blocks, n_products = (
            len(parameters.match_steps(bank)),
            len(parameters.count_steps(bank)),
        )
        rounds = [kind for kind in ROUNDS for _ in range(n_blocks)]
        assert [step.kind for step in steps] == [Roster, *rounds] + [MaskedProducts] * n_products
        assert {step.table_id for step in steps} == {"", bank, "broadcast"}


def test_a_match_after_training_has_the_blocks_alone():
    world = make_class_world(1, n_banks=2, mode="mixed")
    accounts = {bank.name: bank.n_accounts for bank in world.federation.banks}
    parameters, _ = match_parameters(world.parameters, world.data.tables, accounts, 1)
    n_blocks = sum(len(parameters.match_steps(bank)) for bank in parameters.banks)
    kinds = {step.kind for bank in parameters.banks for step in chain_of(parameters, bank)}
    assert kinds == set(ROUNDS)
    # Proposals, keys; four rounds of blocks and answers; what is in force, receipts.
    assert messages_of(parameters) == {"match": 2 * 2 + 4 * 2 * n_blocks + 2 * 2}


def test_the_comparison_belongs_to_the_paper_model():
    counts = messages_of(make_class_world(1, n_banks=2).parameters)
    sealed = messages_of(make_world(1, n_banks=2).parameters)
    assert list(counts) == ["propose", "match", "count"]
    assert list(sealed) == ["propose", "match", "count", "compare", "labels"]
    assert counts["propose"] == sealed["propose"] == 10


def test_answers_about_a_broadcast_table_go_by_way_of_the_aggregator():
    parameters = make_class_world(1, n_banks=2, mode="mixed").parameters
    tables = tuple((plan, ScoringPlan(parameters)) for plan in parameters.tables)
    batch = Batch("counts", tuple(parameters.banks), tables, n_layers=1)
    for bank in batch.banks:
        steps = chain_of(batch, bank)
        assert [(step.kind, step.answer, step.table_id) for step in steps] == [
            (ScoreQuery, ScoreReply, bank),
            (ScoreQuery, Receipt, "broadcast"),
        ]
    # Two banks: a query and an answer each about two tables; two replies to A, and the sum.
    assert messages_of(batch) == {"score": 8 + 2 + 1}


def test_a_receipt_belongs_to_the_phase_of_what_it_acknowledges():
    def phase(kind: type[Message], epoch: int = 0) -> str:
        address = Address("bank01", PAYMENT_NETWORK, "run", "bank01", epoch, 3)
        return phase_of(read_header(encode(Receipt(address, id_of(kind, address.answer())))))

    assert (phase(Roster), phase(MaskedProducts)) == ("propose", "count")
    assert (phase(TablesInForce, epoch=4), phase(ScoreQuery, epoch=5)) == ("match", "score")

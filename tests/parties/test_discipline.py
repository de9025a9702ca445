"""A message that does not fit is refused with the right error, and changes nothing at all."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.kit.recording import Event, Recording, changed, party_with, recorded_run
from tests.kit.round_recording import recorded

from pv4fad.errors import CiphertextError, OrderError, ParameterError, ProtocolError, WireError
from pv4fad.privacy.pairwise import PairwiseKey
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.count.messages import MaskedProducts, NoisyCounts, NoisySums
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    ValueDigits,
)
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.state import ANSWERS, MaskKey, MaskSeeds
from pv4fad.protocol.propose.state import SUMS as SUMS_MASKED
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.score.messages import ScoreQuery, ScoreReply
from pv4fad.protocol.wire import encode, id_of
from pv4fad.store.records import Records

PARTIES = ("payment-network", "aggregator", "bank01", "bank02")
BOTH = (
    RunProposal,
    BankKeys,
    Roster,
    Receipt,
    EncryptedTable,
    MaskedValues,
    ValueDigits,
    MaskedDistances,
    RemainderBits,
    MaskedDifferences,
    IndicatorPlanes,
    BlindedIndicators,
    MaskedProducts,
    NoisySums,
)
# Counts: training and a round of questions.  Sealed: training of the paper's model.
MODELS = {
    "counts": (*BOTH, NoisyCounts, ScoreQuery, ScoreReply),
    "sealed": (*BOTH, BlindedSums, EncryptedDigits, SharedLabels, LabelMasks),
}
SUMS = {"counts": NoisyCounts, "sealed": BlindedSums}
# Where a message carries ciphertexts or residues.
CIPHERTEXTS = [
    ("counts", EncryptedTable, "powers"),
    ("counts", MaskedValues, "ciphertexts"),
    ("counts", ValueDigits, "digits"),
    ("counts", MaskedDistances, "ciphertexts"),
    ("counts", RemainderBits, "bits"),
    ("counts", MaskedDifferences, "ciphertexts"),
    ("counts", IndicatorPlanes, "remainders"),
    ("counts", IndicatorPlanes, "classes"),
    ("counts", BlindedIndicators, "indicators"),
    ("counts", BlindedIndicators, "encrypted_shares"),
    ("counts", MaskedProducts, "ciphertexts"),
    ("counts", ScoreQuery, "ciphertexts"),
    ("sealed", EncryptedDigits, "one_hot"),
]
RESIDUES = [
    ("counts", NoisySums),
    ("counts", NoisyCounts),
    ("counts", ScoreReply),
    ("sealed", NoisySums),
    ("sealed", BlindedSums),
    ("sealed", LabelMasks),
]


def with_run(names: str, cases: list[tuple]) -> pytest.MarkDecorator:
    """The first of the names is `run`, given as a model."""
    return pytest.mark.parametrize(names.split(), cases, indirect=["run"])


each_model = pytest.mark.parametrize("run", MODELS, indirect=True)
by_name = with_run("run kind", [(run, kind) for run, kinds in MODELS.items() for kind in kinds])


@pytest.fixture(scope="module")
def run(request) -> Recording:
    """Of the default model, unless a test says something else."""
    return recorded_run() if getattr(request, "param", "counts") == "sealed" else recorded(1)


def model_of(run: Recording) -> str:
    return run.world.parameters.mode


def refuses(event: Event, data: bytes, error: type[Exception], match: str = ".") -> None:
    """The receiver, as it was when the message of the event came, refuses these bytes instead."""
    party = event.party()
    with pytest.raises(error, match=match):
        party.handle(data)
    assert party.store.snapshot() == event.before


@by_name
def test_a_repeated_message_gets_the_stored_bytes_and_changes_nothing(run, kind):
    for event in run.of(kind):
        party = party_with(event.receiver, event.after)
        assert party.handle(event.data) == event.replies
        assert party.store.snapshot() == event.after


@by_name
def test_a_repeated_id_with_other_content_is_refused(run, kind):
    event = run.of(kind)[0]
    party = party_with(event.receiver, event.after)
    other = event.data[:-1] + bytes([event.data[-1] ^ 1])
    if kind is Receipt:  # its content is in the header
        other = changed(event.message, of="something else")
    with pytest.raises(OrderError, match="other content"):
        party.handle(other)
    assert party.store.snapshot() == event.after


def any_order(first: Event, second: Event) -> bool:
    """Several parties answer the proposal, several banks send sums: in whatever order.

    And a bank's last receipt can be overtaken by what follows from the sums, as in a round all
    receipts by the sum of the answers.  A bank may be asked about its tables in any order.
    """
    kinds = {first.kind, second.kind}
    receipts = [event.message for event in (first, second) if event.kind is Receipt]
    of_proposal = all("run-proposal" in one.of for one in receipts)
    of_last_sums = all("/broadcast/0/masked-products" in one.of for one in receipts)
    return (
        kinds == {NoisySums}
        or (kinds <= {BankKeys, Receipt} and of_proposal)
        or (kinds in OVERTAKING and of_last_sums and "bank02" in receipts[0].of)
        or kinds == {ScoreQuery}
        or (first.message.address.epoch == second.message.address.epoch == 1 and of_sum(second))
        or (kinds == {ScoreReply} and first.receiver.name == "aggregator")
    )


OVERTAKING = ({Receipt, BlindedSums}, {Receipt, NoisyCounts})


def of_sum(event: Event) -> bool:
    """The answers of all banks about the broadcast table, added up."""
    return event.kind is ScoreReply and event.message.address.sender == "aggregator"


@with_run("run receiver", [(run, receiver) for run in MODELS for receiver in PARTIES])
def test_a_message_before_its_time_is_refused(run, receiver):
    """Every message of the run, at every earlier moment of its receiver."""
    mine = [event for event in run.events if event.receiver.name == receiver]
    tried = 0
    for number, later in enumerate(mine):
        for earlier in mine[:number]:
            if not any_order(earlier, later):
                refuses(earlier, later.data, ProtocolError)
                tried += 1
    assert tried >= len(mine) - 2


@with_run("run receiver", [(run, receiver) for run in MODELS for receiver in PARTIES])
def test_a_message_after_its_time_changes_nothing(run, receiver):
    """Handled before: its stored answer, or none if that is known to have arrived."""
    mine = [event for event in run.events if event.receiver.name == receiver]
    for number, earlier in enumerate(mine):
        for later in mine[number + 1 :]:
            party = later.party()
            assert party.handle(earlier.data) in (earlier.replies, [])
            assert party.store.snapshot() == later.before


@by_name
def test_a_message_for_somebody_else_is_refused(run, kind):
    for event in run.of(kind)[:1]:
        for other in PARTIES:
            if other != event.receiver.name:
                refuses(event, changed(event.message, receiver=other), ProtocolError, "reached")


@by_name
def test_a_message_from_the_wrong_sender_is_refused(run, kind):
    """Also from one bank in place of another, and from a bank that takes no part."""
    for event in run.of(kind):
        for other in (*PARTIES, "bank03"):
            data = changed(event.message, sender=other)
            answers_in_any_order = other in run.world.parameters.banks and (
                event.kind in (NoisySums, BankKeys)
                or (event.kind is ScoreReply and event.receiver.name == "aggregator")
            )
            if data != event.data and not answers_in_any_order:
                refuses(event, data, ProtocolError)


@each_model
def test_keys_and_sums_of_one_bank_do_not_pass_for_those_of_another(run):
    """They may come in any order, so it is the content that shows it."""
    for event in run.of(BankKeys):
        (other,) = {"bank01", "bank02"} - {event.message.address.sender}
        refuses(event, changed(event.message, sender=other), ProtocolError)
    for kind in (NoisySums, ScoreReply):
        for second in run.of(kind, "aggregator")[1:]:
            (other,) = {"bank01", "bank02"} - {second.message.address.sender}
            refuses(second, changed(second.message, sender=other), OrderError, "came before")


@by_name
def test_a_message_of_a_run_that_nobody_proposed_is_refused(run, kind):
    error, match = (
        (OrderError, "no such run") if kind is not RunProposal else (ProtocolError, "another run")
    )
    for event in run.of(kind)[:1]:
        refuses(event, changed(event.message, run_id="another"), error, match)


@by_name
def test_a_truncated_or_lengthened_message_is_refused(run, kind):
    event = run.of(kind)[0]
    for data in (event.data[:-1], event.data + b"\0", event.data[:20], b""):
        refuses(event, data, WireError)


@with_run("run kind field", CIPHERTEXTS)
def test_a_ciphertext_too_few_or_too_many_is_refused(run, kind, field):
    event = run.of(kind)[0]
    message = event.message
    there = getattr(message, field)
    for wrong in (there[:-1], (*there, there[0]), ()):
        refuses(event, changed(message, **{field: wrong}), ProtocolError, "wrong number")


def foreign_ciphertexts(run: Recording, right: bytes) -> list[bytes]:
    """Truncated, damaged, of another ring, of another level: never of use, whatever is expected."""
    indicators = run.of(BlindedIndicators)[0].message
    others = (
        *(event.message.one_hot[0] for event in run.of(EncryptedDigits)),
        indicators.indicators[0],
        indicators.encrypted_shares[0],
        run.of(MaskedProducts)[0].message.ciphertexts[0],
    )
    damaged = bytearray(right)
    damaged[-8:] = b"\xff" * 8  # a residue beyond its prime
    return [
        right[:-1],
        b"",
        bytes(len(right)),
        bytes(damaged),
        *(other for other in others if len(other) != len(right)),
    ]


@with_run("run kind field", CIPHERTEXTS)
def test_a_ciphertext_that_is_not_of_the_expected_kind_is_refused(run, kind, field):
    event = run.of(kind)[0]
    message = event.message
    there = getattr(message, field)
    for wrong in foreign_ciphertexts(run, there[-1]):
        refuses(event, changed(message, **{field: (*there[:-1], wrong)}), CiphertextError)


@pytest.mark.parametrize("run", ["sealed"], indirect=True)
def test_label_shares_that_are_not_a_ciphertext_are_refused(run):
    (event,) = run.of(SharedLabels)
    for wrong in foreign_ciphertexts(run, event.message.ciphertext):
        refuses(event, changed(event.message, ciphertext=wrong), CiphertextError)


@with_run("run kind", RESIDUES)
def test_residues_out_of_range_or_in_a_wrong_number_are_refused(run, kind):
    # How many answers there are about a table the aggregator need not know; it compares banks.
    event = run.of(kind)[0] if kind is not ScoreReply else run.of(kind, "payment-network")[0]
    t, there = run.world.parameters.plain_modulus, event.message.residues
    beyond = there.copy()
    beyond[-1] = t
    huge = there.copy()
    huge[0] = np.iinfo(there.dtype).max
    for wrong in (beyond, huge, there[:-1], np.append(there, there[:1]), there.reshape(1, -1)):
        refuses(event, changed(event.message, residues=wrong), ProtocolError)


def test_answers_of_different_length_are_not_added_up(run):
    """About one table: the aggregator refuses the second bank's, whichever is wrong."""
    first, second = run.of(ScoreReply, "aggregator")
    there = second.message.residues
    for wrong in (there[:-1], np.append(there, there[:1]), there[:0]):
        refuses(second, changed(second.message, residues=wrong), ProtocolError, "as many values")
    for event in (first, second):
        beyond = event.message.residues.copy()
        beyond[0] = run.world.parameters.plain_modulus
        refuses(event, changed(event.message, residues=beyond), ProtocolError, "outside")


def test_a_query_without_layers_or_with_too_many_is_refused(run):
    event = run.of(ScoreQuery)[0]
    for wrong in (0, 2):
        refuses(event, changed(event.message, n_layers=wrong), ProtocolError)


def test_a_query_about_a_table_of_another_bank_is_refused(run):
    event = run.of(ScoreQuery, "bank01")[0]
    refuses(event, changed(event.message, table_id="bank02"), ProtocolError, "not a table of")


def test_an_answer_belongs_to_the_round_the_table_and_the_part_that_were_asked_about(run):
    for event in run.of(ScoreReply, "payment-network"):
        table = "bank01" if event.message.address.table_id == "bank02" else "bank02"
        for change in ({"epoch": 0}, {"epoch": 2}, {"index": 1}, {"table_id": table}):
            refuses(event, changed(event.message, **change), ProtocolError)


@each_model
def test_what_follows_from_the_sums_is_that_of_the_model(run):
    """Counts where labels are to stay hidden, or the other way round."""
    (event,) = run.of(SUMS[model_of(run)])
    (other,) = set(SUMS.values()) - {event.kind}
    sizes = run.world.parameters.sizes
    n = sizes.n_sums if other is NoisyCounts else sizes.n_leaves
    message = other(event.message.address, np.zeros(n, np.uint64))
    refuses(event, encode(message), ProtocolError, "not of this model")


@with_run("run receiver", [("counts", "bank01"), ("sealed", "aggregator")])
@pytest.mark.parametrize("field", ["public_keys", "relinearisation_keys"])
def test_a_proposal_with_unfit_keys_is_refused(run, receiver, field):
    (event,) = run.of(RunProposal, receiver)
    *others, last = getattr(event.message, field)  # of the match ring, whose keys both need
    for wrong in (b"", b"nonsense", last[:-1]):
        refuses(event, changed(event.message, **{field: (*others, wrong)}), CiphertextError)
    refuses(event, changed(event.message, **{field: (*others,)}), ProtocolError, "number of keys")


def test_the_aggregator_gets_the_keys_that_it_computes_with_and_no_others(run):
    (of_counts,) = run.of(RunProposal, "aggregator")
    (of_labels,) = recorded_run().of(RunProposal, "aggregator")
    assert len(of_counts.message.public_keys) == 0
    assert len(of_labels.message.public_keys) == 1


@pytest.mark.parametrize("receiver", ["bank01", "aggregator"])
def test_a_proposal_with_unfit_parameters_is_refused(run, receiver):
    (event,) = run.of(RunProposal, receiver)
    for wrong in (
        b"",
        b"{}",
        b"\xff",
        event.message.parameters.replace(b'"bound":1', b'"bound":0'),
    ):
        refuses(event, changed(event.message, parameters=wrong), ParameterError)


def test_a_bank_counts_once_whatever_number_its_message_has(run):
    for kind, match in ((BankKeys, "nothing was asked"), (NoisySums, "not expected from it")):
        event = run.of(kind)[0]
        party = party_with(event.receiver, event.after)
        with pytest.raises(ProtocolError, match=match):
            party.handle(changed(event.message, index=1))
        assert party.store.snapshot() == event.after


def test_a_bank_answers_a_proposal_with_its_keys_and_not_with_a_receipt(run):
    event = run.of(BankKeys)[0]
    here = event.message.address
    receipt = encode(Receipt(here, of=id_of(RunProposal, here.answer())))
    refuses(event, receipt, ProtocolError, "not what was asked")


def test_a_run_does_not_begin_with_a_match_for_scoring(run):
    (event,) = run.of(RunProposal, "bank01")
    parameters = RunParameters.from_json(event.message.parameters)
    matching = {"purpose": "matching", "model_modulus": parameters.plain_modulus}
    wrong = parameters.model_copy(update=matching).model_dump_json().encode()
    message = changed(event.message, parameters=wrong)
    refuses(event, message, ProtocolError, "a match without a model to score")


def test_a_bank_does_not_join_a_run_without_it(run):
    (event,) = run.of(RunProposal, "bank01")
    text = event.message.parameters.replace(b'"bank01"', b'"bank07"')
    refuses(event, changed(event.message, parameters=text), ProtocolError, "takes no part")


def test_keys_of_a_bank_are_checked_when_they_come(run):
    event = run.of(BankKeys)[0]
    refuses(event, changed(event.message, public_key=b"nonsense"), CiphertextError)
    refuses(event, changed(event.message, identity=b"nonsense"), ProtocolError)


def test_a_roster_with_a_foreign_signing_key_is_refused(run):
    """Whoever relays the keys cannot put itself in the middle."""
    event = run.of(Roster, "bank01")[0]
    own, other = event.message.identities
    run_id, key = event.message.address.run_id, PairwiseKey("bank02", bytes(range(32)))
    impostor = Identity.generate("bank02").for_run(key, run_id).to_bytes()
    stranger = Identity.generate("bank03").for_run(key, run_id).to_bytes()
    replayed = run.world.federation.banks[1]._identity.for_run(key, "another run").to_bytes()
    for wrong, match in (
        ((own, impostor), "another signing key"),
        ((own, replayed), f"the X25519 key of bank02 is not signed by it for run {run_id}"),
        ((impostor, other), "not exactly"),
        ((own,), "not exactly"),
        ((own, other, other), "not exactly"),
        ((own, other, stranger), "not exactly"),
        ((own, other[:-1]), "not signed"),
    ):
        refuses(event, changed(event.message, identities=wrong), ProtocolError, match)


def test_a_roster_with_a_bank_that_is_not_known_or_a_key_that_hides_nothing_is_refused(run):
    event = run.of(Roster, "bank01")[0]
    own, _ = event.message.identities
    party = event.party()
    signing, unfit = Ed25519PrivateKey.generate(), bytes(32)  # a point of low order
    known = party._signing_keys
    party._signing_keys = {"bank01": known["bank01"]}
    with pytest.raises(ProtocolError, match="unknown party bank02"):
        party.handle(event.data)
    public = signing.public_key().public_bytes_raw()
    party._signing_keys = known | {"bank02": public}
    run_id = event.message.address.run_id
    signed = b"pv4fad identity for a run, version 1\x00" + unfit
    signature = signing.sign(signed + bytes([len(run_id)]) + run_id.encode() + b"bank02")
    shown = PublicIdentity("bank02", public, unfit, signature, run_id).to_bytes()
    with pytest.raises(ProtocolError, match="the X25519 key of bank02 is not valid"):
        party.handle(changed(event.message, identities=(own, shown)))
    assert party.store.snapshot() == event.before


@each_model
def test_a_receipt_of_something_else_is_refused(run):
    for event in run.of(Receipt):
        refuses(event, changed(event.message, of="something else"), ProtocolError, "something else")


@each_model
def test_the_receipt_of_the_last_sums_may_be_late_but_only_once_and_only_that_one(run):
    """Another transport can deliver the aggregator's message first."""
    (sums,) = run.of(SUMS[model_of(run)])
    receipts = [e for e in run.of(Receipt) if e.message.address.sender == "bank02"]
    late = [e for e in receipts if e.message.address.epoch == 0][-1]
    party = late.party()
    assert len(party.handle(sums.data)) == (model_of(run) == "sealed")
    after = party.store.snapshot()
    with pytest.raises(ProtocolError):
        party.handle(changed(late.message, table_id="bank02"))
    with pytest.raises(ProtocolError):
        party.handle(changed(late.message, sender="bank03"))
    with pytest.raises(ProtocolError):
        party.handle(changed(late.message, epoch=1))
    assert party.store.snapshot() == after
    assert party.handle(late.data) == []


@each_model
def test_training_has_no_other_epoch(run):
    """Another epoch would be another message id, and could be answered a second time."""
    for event in run.events:
        if event.message.address.epoch == 0:
            refuses(event, changed(event.message, epoch=1), ProtocolError)


@each_model
def test_what_has_not_arrived_is_waiting_at_its_sender(run):
    """At every moment of the run: so that after a crash it can be sent again."""
    state = {"payment-network": run.of(Receipt, "payment-network")[0].before}
    for event in run.events:
        sender = event.message.address.sender
        if event.kind is ScoreQuery and event.data in run.begun.replies:
            state["payment-network"] = run.begun.after
        (party,) = (one for one in parties_of(run) if one.name == sender)
        assert event.data in party_with(party, state[sender]).unanswered()
        state[event.receiver.name] = event.after


def parties_of(run: Recording):
    federation = run.world.federation
    return (federation.payment_network, federation.aggregator, *federation.banks)


@each_model
def test_what_has_arrived_is_not_kept_for_ever(run):
    """Messages go to one party after the other, and each is kept until it has been answered.  The
    bulk of the paper's model are the digits for the aggregator, in several messages."""
    digits = sum(len(event.data) for event in run.of(EncryptedDigits))
    largest = max(digits, *(len(event.data) for event in run.events))
    for event in run.events:
        waiting = sum(len(one) for one in party_with(event.receiver, event.after).unanswered())
        assert waiting < 2 * largest


def test_no_refusal_shows_a_value(run):
    """Errors name what is wrong: no residue, no key, no id of an account."""
    event = run.of(NoisySums)[0]
    t = run.world.parameters.plain_modulus
    residues = np.full_like(event.message.residues, t + 12345)
    with pytest.raises(ProtocolError) as caught:
        event.party().handle(changed(event.message, residues=residues))
    assert str(t + 12345) not in str(caught.value)


@each_model
def test_what_masks_follow_from_is_forgotten_when_it_is_used(run):
    """Nothing that a bank keeps after its sums opens a recorded message with them."""
    meeting, last = run.of(Roster, "bank01")[0], run.events[-1]
    with meeting.party().store.transaction() as tx:
        assert Records(tx, meeting.message.address.run_id).has(MaskKey)
    bank = run.world.federation.banks[0]
    with bank.store.transaction() as tx:
        records = Records(tx, last.message.address.run_id)
        assert not records.has(MaskKey)
        assert not records.has(MaskSeeds, SUMS_MASKED)
        assert records.has(MaskSeeds, ANSWERS)

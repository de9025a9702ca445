"""Every bit is that of the record, and a reply that is no sum of bits is noticed."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.live_blocks import DEGREE, live_blocks

from pv4fad.errors import CiphertextError, OrderError, ProtocolError
from pv4fad.he.circuits import MOST_IN_RUN
from pv4fad.he.one_hot import OneHot, weight_bits
from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.live.plan import TRACKS, default_tick_ms, most_questions, weights_of
from pv4fad.protocol.live.steps import Placed, ReplyMaker, runs_of


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_bits_are_those_of_the_records_over_blocks_and_sets(modulus):
    """From no question to as many as a reply can tell."""
    blocks = live_blocks(modulus)
    maker = blocks.maker()
    for seed, n in enumerate((0, 1, 2, 40, 4 * most_questions(modulus))):
        maker.prepare()
        placed = blocks.questions(n, seed)
        query = maker.query(placed)
        bits = blocks.bits(placed, query, blocks.replies(query))
        assert np.array_equal(bits, blocks.true_bits(placed))
    assert len(placed) == most_questions(modulus)
    assert len(np.unique(placed.block * 3 + placed.set)) == 9
    assert 0 < bits.mean() < 1


def test_masks_that_were_prepared_are_used_up_and_others_are_made_when_there_are_none():
    blocks = live_blocks(65537)
    maker = blocks.maker()
    maker.prepare()
    maker.prepare()
    for left in (1, 0, 0):
        placed = blocks.questions(5, left)
        query = maker.query(placed)
        assert maker.n_masks == left
        assert np.array_equal(
            blocks.bits(placed, query, blocks.replies(query)), blocks.true_bits(placed)
        )


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_all_sets_of_accounts_are_asked_with_one_product_per_block(modulus, monkeypatch):
    blocks = live_blocks(modulus)
    rng = np.random.default_rng(1)
    slot = rng.choice(DEGREE, 60, replace=False).repeat(3)
    block, of_set = rng.integers(3, size=60).repeat(3), np.tile([2, 0, 1], 60)
    placed = Placed(block, slot, of_set, weights_of(slot % TRACKS))
    products = []
    monkeypatch.setattr(
        OneHot, "of", lambda *args, of=OneHot.of: products.append(args) or of(*args)
    )
    query = blocks.maker().query(placed)
    assert len(products) == 3
    bits = blocks.bits(placed, query, blocks.replies(query))
    assert np.array_equal(bits, blocks.true_bits(placed))


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 2, st.integers(0, 9)), unique=True))
def test_runs_have_every_question_once_at_its_own_weight(questions):
    """A place is a block, a slot and a set; sets of a slot have weights with gaps."""
    block, slot, of_set = np.array(questions, np.int64).reshape(-1, 3).T
    placed = Placed(block, slot, of_set, of_set + of_set // 3)
    found = [
        (block, slot, one, weight + i)
        for (block, *sets), places in runs_of(placed).items()
        for slot, weight in places
        for i, one in enumerate(sets)
    ]
    wanted = zip(block, slot, of_set, placed.weight, strict=True)
    assert sorted(found) == sorted(wanted)
    assert all(len(run) <= 1 + MOST_IN_RUN for run in runs_of(placed))


@pytest.fixture(scope="module")
def asked():
    blocks = live_blocks(65537)
    placed = blocks.questions(30, 7)
    query = blocks.maker().query(placed)
    return blocks, placed, query, blocks.replies(query)


def test_a_reply_that_is_no_sum_of_the_bits_asked_for_is_refused(asked):
    blocks, placed, query, replies = asked
    empty = np.setdiff1d(np.arange(TRACKS), placed.track)[0]
    track = placed.track[placed.weight == 0][0]
    for where, more in ((empty, 1), (empty, 65536), (track, 2**15), (track, 2**12)):
        changed = replies.copy()
        changed[where] = (changed[where] + more) % 65537
        with pytest.raises(ProtocolError, match="no sum of the bits"):
            blocks.bits(placed, query, changed)
    changed = replies.copy()
    changed[3] = 65537
    with pytest.raises(ProtocolError, match="none modulo t"):
        blocks.bits(placed, query, changed)
    noise = np.random.default_rng(1).integers(65537, size=TRACKS).astype(np.uint32)
    with pytest.raises(ProtocolError):
        blocks.bits(placed, query, noise)


def test_the_reply_to_another_query_is_refused(asked):
    blocks, placed, query, _ = asked
    other = blocks.maker().query(placed)
    with pytest.raises(ProtocolError, match="no sum of the bits"):
        blocks.bits(placed, query, blocks.replies(other))


def test_questions_that_share_a_place_or_come_twice_are_not_asked(asked):
    blocks, placed, _, _ = asked
    maker = blocks.maker()
    with pytest.raises(OrderError, match="no track holds"):
        maker.query(dataclasses.replace(placed, weight=placed.weight + 16))
    with pytest.raises(OrderError, match="no track holds"):
        maker.query(dataclasses.replace(placed, weight=placed.weight - 1))
    two = np.array([0, 0])
    with pytest.raises(OrderError, match="same place"):
        maker.query(Placed(two, np.array([1, 1 + TRACKS]), two, two))
    with pytest.raises(OrderError, match="the same question"):
        maker.query(Placed(two, two, two, np.array([0, 1])))


def test_what_is_no_query_is_refused(asked):
    blocks, _, query, _ = asked
    bank = ReplyMaker(blocks.keys.secret)
    for wrong in (b"", query.ciphertext[:-8], b"\0" * len(query.ciphertext)):
        with pytest.raises(CiphertextError):
            bank.load(wrong)


@given(st.lists(st.integers(0, TRACKS - 1), max_size=100))
def test_weights_count_up_within_each_track(tracks):
    seen = dict.fromkeys(range(TRACKS), 0)
    for track, weight in zip(tracks, weights_of(tracks), strict=True):
        assert weight == seen[track]
        seen[track] += 1


def test_tracks_divide_the_slots():
    assert DEGREE % TRACKS == 0
    assert most_questions(65537) == 16 * TRACKS
    assert weight_bits(65537) == 16


def test_the_clock_gets_slower_with_the_number_of_banks():
    assert [default_tick_ms(n) for n in (1, 3, 4, 5, 25)] == [50, 50, 50, 60, 260]

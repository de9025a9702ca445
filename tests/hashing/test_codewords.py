"""Codewords: constant weight, one per rank, known answers; the bound on false matches."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.hashing.codewords import ConstantWeightCode

codes = st.tuples(st.integers(2, 64), st.integers(1, 63)).filter(lambda c: c[1] < c[0])
words64 = st.lists(st.integers(0, 2**64 - 1), max_size=20)


def test_ranks_of_a_small_code_are_its_words_in_order():
    code = ConstantWeightCode(length=5, weight=3)
    words = code.encode(np.arange(10, dtype=np.uint64))
    assert words.tolist() == sorted(sum(1 << c for c in ones) for ones in combinations(range(5), 3))
    assert words[:4].tolist() == [0b00111, 0b01011, 0b01101, 0b01110]


def test_known_answers_of_the_default_code():
    code = ConstantWeightCode()
    assert code.n_codewords == 10_363_194_502_115
    assert code.tag_bits == 43
    ranks = [0, 1, 10_363_194_502_114, 123_456_789_012]
    words = code.encode(np.array(ranks, np.uint64))
    assert words[:3].tolist() == [0xFFFF, 0x17FFF, 0xFFFF << 36]
    # 123456789012 = C(39,16) + C(38,15) + …: written out with Python's integers.
    assert int(words[3]) == by_hand(123_456_789_012, 16)
    wrapped = code.encode(np.array([10_363_194_502_115], np.uint64))
    assert wrapped.tolist() == [0xFFFF]


def by_hand(rank: int, weight: int) -> int:
    word = 0
    for ones_left in range(weight, 0, -1):
        position = max(c for c in range(64) if comb(c, ones_left) <= rank)
        rank -= comb(position, ones_left)
        word |= 1 << position
    return word


@given(codes, words64)
def test_codewords_have_the_weight_and_give_their_rank_back(parameters, raw):
    code = ConstantWeightCode(*parameters)
    tags = np.array(raw, np.uint64)
    words = code.encode(tags)
    assert all(w.bit_count() == code.weight and w < 2**code.length for w in words.tolist())
    assert code.rank(words).tolist() == [tag % code.n_codewords for tag in raw]


@given(codes, words64)
def test_planes_hold_the_bits_of_the_words(parameters, raw):
    code = ConstantWeightCode(*parameters)
    words = np.concatenate([code.encode(np.array(raw, np.uint64)), np.zeros(1, np.uint64)])
    planes = code.planes(words)
    assert planes.shape == (code.length, len(words))
    assert (planes.sum(axis=0)[:-1] == code.weight).all()
    assert not planes[:, -1].any()
    rebuilt = [sum(int(bit) << i for i, bit in enumerate(column)) for column in planes.T]
    assert rebuilt == words.tolist()


def test_only_equal_tags_agree_in_all_ones():
    code = ConstantWeightCode(8, 3)
    words = code.encode(np.arange(code.n_codewords, dtype=np.uint64))
    agreeing = np.bitwise_count(words[:, np.newaxis] & words)
    assert np.array_equal(agreeing == code.weight, np.eye(len(words), dtype=bool))


def test_false_matches_of_a_small_code_stay_within_the_bound():
    # 5005 codewords; 2^18 pairs match 52 times on average. Below 20 or above 95 happens with
    # probability below 1e-6 (Poisson).
    code = ConstantWeightCode(15, 6)
    tags = np.random.default_rng(4).integers(0, 2**64, (2, 2**18), dtype=np.uint64)
    matches = int((code.encode(tags[0]) == code.encode(tags[1])).sum())
    expected = 2 ** code.log2_false_match_bound(2**18)
    assert expected == pytest.approx(2**18 / 5005)
    assert 20 <= matches <= 95


def test_two_million_bank_accounts_stay_below_the_default_limit():
    code = ConstantWeightCode()
    assert code.log2_false_match_bound(3 * 2_000_000) < -20
    assert code.log2_false_match_bound(1) <= -code.tag_bits
    assert code.log2_false_match_bound(0) == -np.inf


@pytest.mark.parametrize(("length", "weight"), [(65, 16), (16, 16), (10, 0), (0, 0)])
def test_impossible_codes_are_refused(length, weight):
    with pytest.raises(ParameterError, match="constant-weight"):
        ConstantWeightCode(length, weight)


@pytest.mark.parametrize("word", [0, 0b1111, 0b0111 << 3, 0b11])
def test_a_word_outside_the_code_has_no_rank(word):
    with pytest.raises(ParameterError, match="codeword"):
        ConstantWeightCode(5, 3).rank(np.array([word], np.uint64))

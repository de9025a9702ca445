"""Tags as constant-weight codewords: `length` bits, exactly `weight` of them 1.

Two codewords agree in `weight` ones only if they are equal, so an inner product tells equality, and
the empty word 0 never matches.  A tag is a raw 64-bit hash word, reduced modulo the number of
codewords C(length, weight) to a *rank*; no rank is likelier than 1/C + 2^-64, for the default code
a relative bias below 2^-20.  The codeword of rank r has its ones at the positions
c_w > … > c_1 ≥ 0 with r = C(c_w, w) + … + C(c_1, 1), the combinatorial number system.

A codeword is one uint64: bit i is the bit of plane i.
"""

from dataclasses import dataclass
from math import comb, floor, log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError

_WORD_BITS = 64


@dataclass(frozen=True)
class ConstantWeightCode:
    """All words of `length` ≤ 64 bits with `weight` ones; the default has 43-bit tags."""

    length: int = 52
    weight: int = 16

    def __post_init__(self) -> None:
        if not 1 <= self.weight < self.length <= _WORD_BITS:
            raise ParameterError(
                f"no constant-weight code of length {self.length} and weight {self.weight}: "
                f"need 1 ≤ weight < length ≤ {_WORD_BITS}"
            )

    @property
    def n_codewords(self) -> int:
        return comb(self.length, self.weight)

    @property
    def tag_bits(self) -> int:
        """Whole bits of a tag."""
        return floor(log2(self.n_codewords))

    def encode(self, tags: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The codeword of each tag (a raw 64-bit hash word)."""
        rest = tags % np.uint64(self.n_codewords)
        words = np.zeros(len(tags), np.uint64)
        for ones_left in range(self.weight, 0, -1):
            # Positions are found from the top: the largest c with C(c, ones_left) ≤ rest.
            table = np.array([comb(c, ones_left) for c in range(self.length)], np.uint64)
            position = np.searchsorted(table, rest, side="right") - 1
            rest -= table[position]
            words |= np.uint64(1) << position.astype(np.uint64)
        return words

    def rank(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The rank of each codeword: the tag modulo the number of codewords."""
        ranks = np.zeros(len(words), np.uint64)
        ones = np.zeros(len(words), np.int64)
        for position in range(self.length):
            bit = (words >> np.uint64(position)) & np.uint64(1)
            ones += bit.astype(np.int64)
            table = np.array([comb(position, k) for k in range(self.length + 1)], np.uint64)
            ranks += bit * table[ones]
        if (ones != self.weight).any() or (words >> np.uint64(self.length - 1) > 1).any():
            raise ParameterError(f"not a codeword of length {self.length} and weight {self.weight}")
        return ranks

    def planes(self, words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """(length, n): plane i holds bit i of every word; the word 0 (an empty bin) is allowed."""
        octets = words.astype("<u8").view(np.uint8).reshape(-1, 8)
        bits = np.unpackbits(octets, axis=1, count=self.length, bitorder="little")
        return np.ascontiguousarray(bits.T)

    def log2_false_match_bound(self, compared_pairs: int) -> float:
        """log2 of a bound on the probability that any of so many different pairs agree in tag."""
        if compared_pairs == 0:
            return -np.inf
        return log2(compared_pairs) + log2(1 / self.n_codewords + 2.0**-_WORD_BITS)

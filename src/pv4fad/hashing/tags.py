"""Tags: what is compared where two accounts meet in a bin.

A tag is a 64-bit word of the account's keyed hash, modulo the prime T of 47 bits.  No tag is
likelier than 1/T + 2^-64, so that is how likely two different accounts of one bin agree.  A bin of
the payment network that holds no account has a fresh random value instead of a tag.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import AccountHashes

TAG_MODULUS = 140737488125953
"""T: the largest prime below 2^47 that is 1 modulo 2·16384, as the slots of a ring need it."""

_WORD_BITS = 64


def tags_of(hashes: AccountHashes) -> NDArray[np.uint64]:
    """The tag of each account."""
    return hashes.tags % np.uint64(TAG_MODULUS)


def log2_false_match_bound(n_pairs: int, n_bins: int, n_classes: int) -> float:
    """log2 of a bound on the probability that any of so many different pairs has one tag, or any
    bin a wrong class.

    The class comes as a residue modulo T with a mask added to it.  Its remainder modulo 32 is
    wrong if the sum exceeds T: at most n_classes − 1 of T masks do that.
    """
    probability = n_pairs * (1 / TAG_MODULUS + 2.0**-_WORD_BITS)
    return log2(probability + n_bins * (n_classes - 1) / TAG_MODULUS)

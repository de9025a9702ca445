"""Keyed hashes of accounts, and the public hash that gives every account its tree.

One BLAKE2b call per account yields four independent 64-bit words: three that choose its bins and
one for its tag.  The payment network draws the key after all account sets are fixed and tells it to
the banks, so that no bank can prepare accounts that collide.  `tree_of` has no key: it must give
the same tree in every run.

A word w is mapped to [0, n) as w mod n.  Every value then has a probability within a factor
1 ± n·2^-64 of 1/n: for n ≤ 2^32 a relative bias of at most 2^-32.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.randomness import secret_bytes

N_FUNCTIONS = 3  # hash functions of a cuckoo table
KEY_BYTES = 32
_ACCOUNT_DOMAIN = b"pv4fad account"
_TREE_DOMAIN = b"pv4fad tree"
_CHUNK = 1 << 16  # accounts hashed at a time: bounds the memory of the Python digests


@dataclass(frozen=True)
class AccountHashes:
    """Raw 64-bit words of n accounts: `bins` (n, 3), one per hash function, and `tags` (n,)."""

    bins: NDArray[np.uint64] = field(repr=False)
    tags: NDArray[np.uint64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.tags)


def new_hash_key() -> bytes:
    """A fresh key for `hash_accounts`; draw it after the account sets are fixed."""
    return secret_bytes(KEY_BYTES)


def hash_accounts(keys: Sequence[bytes], hash_key: bytes) -> AccountHashes:
    """The hash words of each account, in the order given."""
    if len(hash_key) != KEY_BYTES:
        raise ParameterError(f"a hash key has {KEY_BYTES} bytes, not {len(hash_key)}")
    words = np.empty((len(keys), N_FUNCTIONS + 1), np.uint64)
    for start in range(0, len(keys), _CHUNK):
        digests = b"".join(
            [
                blake2b(key, digest_size=32, key=hash_key, person=_ACCOUNT_DOMAIN).digest()
                for key in keys[start : start + _CHUNK]
            ]
        )
        chunk = np.frombuffer(digests, "<u8").reshape(-1, N_FUNCTIONS + 1)
        words[start : start + len(chunk)] = chunk
    return AccountHashes(bins=words[:, :N_FUNCTIONS], tags=words[:, N_FUNCTIONS].copy())


def tree_of(bare_ids: Sequence[bytes], n_trees: int) -> NDArray[np.int64]:
    """The tree that each account teaches (protocol.md §11.1): public, and the same in every run."""
    if n_trees == 1:
        return np.zeros(len(bare_ids), np.int64)
    digests = b"".join(
        [blake2b(bare_id, digest_size=8, person=_TREE_DOMAIN).digest() for bare_id in bare_ids]
    )
    return reduce_words(np.frombuffer(digests, "<u8"), n_trees)


def reduce_words(words: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Words mapped to [0, n), n ≤ 2^32."""
    if not 1 <= n <= 2**32:
        raise ParameterError(f"hash words cannot be reduced to {n} values: need 1..2^32")
    return (words % np.uint64(n)).astype(np.int64)

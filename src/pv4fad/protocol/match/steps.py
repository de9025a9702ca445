"""The local steps of match, for a block or two: worker jobs on plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.circuits import FEW_ACCOUNTS, FINAL_PRIMES
from pv4fad.he.equality import equality_polynomial
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    PublicKey,
    SecretEncryptor,
    SecretKey,
)
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.randomness import secret_residues

IndicatorSums = tuple[bytes | None, ...]
"""I_k over some layers of a block, one for each atom k; None where no account has the atom."""

_TWO = np.uint64(2)


@dataclass(frozen=True)
class PlanesJob:
    """Step 1 for one block."""

    secret: SecretKey
    words: NDArray[np.uint64] = field(repr=False)  # the codeword of each bin as bits; 0 if empty
    code_length: int


def encrypt_planes(job: PlanesJob) -> bytes:
    """PaymentNetwork, step 1: one ciphertext for each bit of the codewords, back to back."""
    encryptor = SecretEncryptor(job.secret)
    # In one piece: hundreds of pieces of this size would leave holes in the memory of a party.
    return b"".join(
        encryptor.ring.dump(encryptor.encrypt(bit_plane(job.words, bit)))
        for bit in range(job.code_length)
    )


@dataclass(frozen=True)
class LayersJob:
    """Step 2 for some layers of one block, of which the last `n_shared` share polynomials."""

    public: PublicKey
    code_length: int
    planes: bytes = field(repr=False)
    words: NDArray[np.uint64] = field(repr=False)  # (layers, bins): codewords, 0 where no account
    atoms: NDArray[np.int16] = field(repr=False)  # (layers, bins): −1 if none
    n_atoms: int
    n_shared: int = 0


@dataclass(frozen=True)
class LayerSums:
    """What step 2 yields for some layers.  Stays at the bank: nothing here is sanitised."""

    sums: IndicatorSums = field(repr=False)  # over the layers that share no polynomial
    agreeing: tuple[bytes, ...] = field(repr=False)  # E_S[2a] of each of the others


def sum_layers(job: LayersJob) -> LayerSums:
    """Bank, step 2: agreeing ones of each layer; f and I_k where that can be done at once."""
    evaluator = Evaluator(job.public)
    ring = evaluator.ring
    planes = ring.load_all(job.planes, job.code_length, ring.parameters.n_data_primes)
    sums, agreeing = _Indicators(evaluator, job.n_atoms), []
    for number, (words, atoms) in enumerate(zip(job.words, job.atoms, strict=True)):
        ones = _agreeing(evaluator, planes, words)
        if number < len(job.words) - job.n_shared:
            sums.add(equality_polynomial(ring.plain_modulus).of(evaluator, ones), atoms)
        else:
            agreeing.append(ring.dump(ones))
    return LayerSums(sums.dump(), tuple(agreeing))


def _agreeing(
    evaluator: Evaluator, planes: list[Ciphertext], words: NDArray[np.uint64]
) -> Ciphertext:
    """E[2a] for one layer with at least one account; 0 in its empty bins."""
    bins = np.flatnonzero(words)
    terms: Iterable[tuple[Ciphertext, NDArray[np.uint64]]]
    if len(bins) <= FEW_ACCOUNTS:
        terms = ((evaluator.total(_ones(planes, words[b])), _only(b, len(words))) for b in bins)
    else:
        terms = ((plane, bit_plane(words, bit) * _TWO) for bit, plane in enumerate(planes))
    return evaluator.add_products(None, terms)


def _ones(planes: list[Ciphertext], word: np.uint64) -> list[Ciphertext]:
    return [plane for bit, plane in enumerate(planes) if int(word) >> bit & 1]


def _only(position: np.int64, n_bins: int) -> NDArray[np.uint64]:
    mask = np.zeros(n_bins, np.uint64)
    mask[position] = _TWO
    return mask


def n_shared_layers(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """How many polynomials the layers (layers, bins) of two blocks can share.

    Layer l has an account only where a bin has more than l.  If no bin has more than P accounts
    in both blocks together, then layer l of the first and layer P−1−l of the second meet in no
    bin.  So their last layers pair up: the last with the first of those, and so on.
    """
    in_bin = np.count_nonzero(first, axis=0) + np.count_nonzero(second, axis=0)
    n_polynomials = max(int(in_bin.max()), len(first), len(second))
    return len(first) + len(second) - n_polynomials


@dataclass(frozen=True)
class SharedLayer:
    """A layer of one block on its way through a polynomial that it shares."""

    agreeing: bytes = field(repr=False)  # E_S[2a]
    atoms: NDArray[np.int16] = field(repr=False)  # (bins,)


@dataclass(frozen=True)
class SharedLayersJob:
    """Step 2 for pairs of layers, one of each of two blocks, that meet in no bin."""

    public: PublicKey
    pairs: tuple[tuple[SharedLayer, SharedLayer], ...]
    n_atoms: int


def sum_shared_layers(job: SharedLayersJob) -> tuple[IndicatorSums, IndicatorSums]:
    """Bank, step 2: I_k over these layers for each of the two blocks.  Stays at the bank."""
    evaluator = Evaluator(job.public)
    ring = evaluator.ring
    top = ring.parameters.n_data_primes
    sums = _Indicators(evaluator, job.n_atoms), _Indicators(evaluator, job.n_atoms)
    for pair in job.pairs:
        ones = evaluator.total([ring.load(layer.agreeing, top) for layer in pair])
        equal = equality_polynomial(ring.plain_modulus).of(evaluator, ones)
        for of_block, layer in zip(sums, pair, strict=True):
            of_block.add(equal, layer.atoms)
    return sums[0].dump(), sums[1].dump()


class _Indicators:
    """E_S[I_k] of a block, layer after layer."""

    def __init__(self, evaluator: Evaluator, n_atoms: int) -> None:
        self._evaluator = evaluator
        self._sums: list[Ciphertext | None] = [None] * n_atoms
        modulus = evaluator.ring.plain_modulus
        # The polynomial gives a constant where all ones agree; the atom masks bring it to 1.
        self._scale = np.uint64(pow(equality_polynomial(modulus).at_match, -1, modulus))

    def add(self, equal: Ciphertext, atoms: NDArray[np.int16]) -> None:
        """I_k += e·[the layer's account has atom k]."""
        for k, before in enumerate(self._sums):
            mask = (atoms == k) * self._scale
            self._sums[k] = self._evaluator.add_products(before, [(equal, mask)])

    def dump(self) -> IndicatorSums:
        return tuple(
            None if total is None else self._evaluator.ring.dump(total) for total in self._sums
        )


@dataclass(frozen=True)
class BlindJob:
    """Step 3 for one block."""

    public: PublicKey
    own_secret: SecretKey
    flood: Flood
    partial_sums: tuple[IndicatorSums, ...] = field(repr=False)


@dataclass(frozen=True)
class BlindedBlock:
    """What step 3 yields: the bank keeps `shares`, the rest goes to the payment network."""

    shares: NDArray[np.uint32] = field(repr=False)  # (atoms, bins), s_k
    blinded: tuple[bytes, ...] = field(repr=False)  # E_S[I_k + s_k], one per atom
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k], atom by atom


def blind_indicators(job: BlindJob) -> BlindedBlock:
    """Bank, step 3: hides which accounts matched behind shares that are fresh in every call."""
    evaluator, encryptor = Evaluator(job.public), Encryptor(job.public)
    sanitiser = Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    n_atoms = len(job.partial_sums[0])
    own = SecretEncryptor(job.own_secret)
    shares = secret_residues(ring.plain_modulus, n_atoms * ring.degree)
    shares = shares.reshape(n_atoms, ring.degree)
    blinded, encrypted = [], []
    for k in range(n_atoms):
        parts = [ring.load(part, FINAL_PRIMES) for part in (p[k] for p in job.partial_sums) if part]
        # An atom without accounts still needs a ciphertext; sanitised, it looks like any other.
        indicator = evaluator.total(parts) if parts else encryptor.zero(FINAL_PRIMES)
        evaluator.add_slots(indicator, shares[k])
        blinded.append(sanitiser.sanitise(indicator))
        for half in shares[k].reshape(-1, own.ring.degree):
            encrypted.append(own.ring.dump(own.encrypt(half)))
    return BlindedBlock(shares.astype(np.uint32), tuple(blinded), tuple(encrypted))


@dataclass(frozen=True)
class OpenJob:
    """Step 4 for one block."""

    secret: SecretKey
    blinded: tuple[bytes, ...] = field(repr=False)


def open_indicators(job: OpenJob) -> NDArray[np.uint32]:
    """PaymentNetwork, step 4: u_k for each atom, (atoms, bins)."""
    decryptor = Decryptor(job.secret)
    ring = Ring.of(job.secret.ring)
    opened = [decryptor.decrypt(ring.load(data, 1)) for data in job.blinded]
    return np.stack(opened).astype(np.uint32)


def bit_plane(words: NDArray[np.uint64], bit: int) -> NDArray[np.uint64]:
    """Bit `bit` of each codeword."""
    return (words >> np.uint64(bit)) & np.uint64(1)

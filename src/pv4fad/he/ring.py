"""Rings: the parameters of BGV and everything that follows from them.

Two rings are used (protocol.md §3).  The *match ring* belongs to the payment network and is deep
enough for the equality polynomial.  The *share ring* belongs to a bank; in it there are only
products with plaintexts.  Both are refused unless the library's 128-bit check accepts them.

A ciphertext's level is named by the number of primes it still has, `n_primes`: the top level has
all data primes, the last has one.  The special prime (the last one listed) only serves key
switching and public-key encryption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import seal
from numpy.typing import NDArray

from pv4fad.errors import CiphertextError, ParameterError

# The library's objects carry no type information of their own.
Ciphertext: TypeAlias = Any
Plaintext: TypeAlias = Any
Residues: TypeAlias = NDArray[np.uint64]

_UNCOMPRESSED = seal.compr_mode_type.none
_HEADER_BYTES = 113  # of a serialised ciphertext, whatever its level
_FACTOR = slice(81, 89)  # of the header: the correction factor of BGV
_BYTES_PER_RESIDUE = 8


@dataclass(frozen=True)
class RingParameters:
    """What two parties must agree on to exchange ciphertexts."""

    degree: int
    plain_modulus: int
    prime_bits: tuple[int, ...]

    @property
    def n_data_primes(self) -> int:
        """Primes of a fresh ciphertext: all but the special one."""
        return len(self.prime_bits) - 1


# Primes that allow batching at N = 16384; which one a run takes follows from its largest sum.
PLAIN_MODULI = (65537, 163841, 786433, 2654209)
_LARGEST_FOR_SIX_PRIMES = 163841


def match_ring(plain_modulus: int) -> RingParameters:
    """The payment network's ring: four levels of products, with room to sanitise at two primes.

    A larger plaintext modulus makes the first sum noisier; a seventh prime takes that off again
    before the products start.  The noise analysis (`circuits`) says that this suffices.
    """
    if plain_modulus <= _LARGEST_FOR_SIX_PRIMES:
        return RingParameters(16384, plain_modulus, (60,) * 7)
    return RingParameters(16384, plain_modulus, (60, 60, 60, 50, 50, 50, 48, 60))


def share_ring(plain_modulus: int) -> RingParameters:
    """A bank's ring: two products with plaintexts at three primes, one at two."""
    return RingParameters(8192, plain_modulus, (60, 60, 40, 58))


class Ring:
    """A validated ring: encodes slots, reads and writes ciphertexts of a known level."""

    def __init__(self, parameters: RingParameters) -> None:
        self.parameters = parameters
        self.degree = parameters.degree
        self.plain_modulus = parameters.plain_modulus
        self.context = _checked_context(parameters)
        self.encoder = seal.BatchEncoder(self.context)
        data = self.context.first_context_data()
        self.primes = tuple(int(p.value()) for p in data.parms().coeff_modulus())
        self._parms_ids: dict[int, Any] = {}
        while data is not None:
            self._parms_ids[len(data.parms().coeff_modulus())] = data.parms_id()
            data = data.next_context_data()

    @staticmethod
    def of(parameters: RingParameters) -> Ring:
        """The ring of these parameters; built once per process."""
        return _cached_ring(parameters)

    def parms_id(self, n_primes: int) -> Any:
        """The library's name for the level with `n_primes` primes."""
        return self._parms_ids[n_primes]

    def level_of(self, ciphertext: Ciphertext) -> int:
        """How many primes a ciphertext still has."""
        return int(ciphertext.coeff_modulus_size())

    def encode(self, values: NDArray[Any]) -> Plaintext:
        """Slots to plaintext; missing slots are 0.  Values must lie in [0, t)."""
        slots = np.zeros(self.degree, np.uint64)
        slots[: len(values)] = values
        return self.encoder.encode(slots)

    def decode(self, plaintext: Plaintext) -> Residues:
        """Plaintext to slots in [0, t)."""
        return np.asarray(self.encoder.decode_uint64(plaintext), np.uint64)

    def ciphertext_bytes(self, n_primes: int) -> int:
        """The size of every ciphertext at a level: public, whatever it holds."""
        return _HEADER_BYTES + 2 * n_primes * self.degree * _BYTES_PER_RESIDUE

    def header(self, ciphertext: Ciphertext) -> bytes:
        """The constant bytes before the residues of every ciphertext of this level and form."""
        return self.dump(ciphertext)[:_HEADER_BYTES]

    def from_residues(self, header: bytes, residues: Residues) -> Ciphertext:
        """A ciphertext from raw residues, (2, n_primes, N), that this process computed."""
        return self.context.from_cipher_str(header + residues.tobytes())

    def dump(self, ciphertext: Ciphertext) -> bytes:
        """A ciphertext as bytes."""
        return bytes(ciphertext.to_string(_UNCOMPRESSED))

    def load(self, data: bytes | memoryview, n_primes: int) -> Ciphertext:
        """Bytes to a ciphertext of this ring at this level, or a clear error."""
        expected = self.ciphertext_bytes(n_primes)
        if len(data) != expected:
            raise CiphertextError(
                f"a ciphertext of {len(data)} bytes arrived where {expected} are expected "
                f"(N={self.degree}, {n_primes} primes)"
            )
        try:
            ciphertext = self.context.from_cipher_str(bytes(data))
        except (RuntimeError, ValueError, IndexError) as error:
            raise CiphertextError(
                f"bytes that are not a ciphertext of this ring (N={self.degree}, "
                f"t={self.plain_modulus}): {error}"
            ) from None
        # Of the right length with two polynomials, it has the level; reading gives it its form.
        # Our primes need no correction factor, and the noise bounds count none: to add ciphertexts
        # of different factors the library multiplies them.
        factor = int.from_bytes(data[_FACTOR], "little")
        if ciphertext.size() != 2 or ciphertext.is_transparent() or factor != 1:
            raise CiphertextError("a ciphertext of another level or form than expected")
        return ciphertext

    def load_all(self, data: bytes, count: int, n_primes: int) -> list[Ciphertext]:
        """Bytes to `count` ciphertexts, written back to back, or a clear error."""
        size = self.ciphertext_bytes(n_primes)
        if len(data) != count * size:
            raise CiphertextError(
                f"{len(data)} bytes arrived where {count} ciphertexts of {size} bytes are expected"
            )
        view = memoryview(data)
        return [self.load(view[i * size : (i + 1) * size], n_primes) for i in range(count)]


def most_bits(degree: int) -> int:
    """The bits that all primes together may have at a degree, for 128-bit security."""
    return int(seal.CoeffModulus.MaxBitCount(degree))


@lru_cache(maxsize=8)
def _cached_ring(parameters: RingParameters) -> Ring:
    return Ring(parameters)


def _checked_context(parameters: RingParameters) -> Any:
    wire = seal.EncryptionParameters(seal.scheme_type.bgv)
    plain_modulus = seal.Modulus(parameters.plain_modulus)
    try:
        wire.set_poly_modulus_degree(parameters.degree)
        wire.set_plain_modulus(plain_modulus)
        # Primes that are 1 modulo t: switching the modulus then needs no correction factor.
        wire.set_coeff_modulus(
            seal.CoeffModulus.Create(parameters.degree, plain_modulus, list(parameters.prime_bits))
        )
    except (RuntimeError, ValueError, IndexError) as error:
        raise ParameterError(f"no ring for {parameters}: {error}") from None
    # The default security level is 128 bits; a set that falls short is not accepted.
    context = seal.SEALContext(wire)
    if not context.parameters_set():
        raise ParameterError(f"{parameters}: {context.parameter_error_message()}")
    if not context.first_context_data().qualifiers().using_batching:
        raise ParameterError(f"{parameters}: plain_modulus does not allow batching")
    return context

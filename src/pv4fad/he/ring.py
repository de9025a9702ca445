"""Rings: the parameters of BGV and everything that follows from them.

The payment network has three rings for match (protocol.md §3, §7).  In the *tag ring* the bank
evaluates polynomials at tags modulo a 47-bit prime; in the *distance ring* it adds up squared
differences of digits, twice; in the *match ring*, whose t is that of the run, it turns a distance
into indicators.  With the paper's model there is a *compare ring*, in which the aggregator compares
sums.  The *share ring* belongs to a bank; in it there are only products with plaintexts.  All are
refused unless the library's 128-bit check accepts them.

A ciphertext's level is named by the number of primes it still has, `n_primes`: the top level has
all data primes, the last has one.  The special prime (the last one listed) only serves key
switching and public-key encryption.

Switching the modulus multiplies the plaintext by 1/q, q the prime that is dropped, and the library
notes that in a *correction factor*.  Where the primes are 1 modulo t it is always 1.  For the tag
ring there are no such primes: a ciphertext there is switched only after it has been sanitised, and
its factor then is a known constant.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import seal
from numpy.typing import NDArray

from pv4fad.errors import CiphertextError, ParameterError
from pv4fad.hashing.tags import TAG_MODULUS

# The library's objects carry no type information of their own.
Ciphertext: TypeAlias = Any
Plaintext: TypeAlias = Any
Residues: TypeAlias = NDArray[np.uint64]

_UNCOMPRESSED = seal.compr_mode_type.none
_BYTES_PER_RESIDUE = 8
# The bytes before the residues of a ciphertext: magic and version, bytes in all; the library's name
# of the level; whether in evaluation form, polynomials, degree, primes, scale, correction factor;
# magic and version, bytes from here on, residues.
_HEADER = struct.Struct("<8sQ 4Q ?QQQdQ 8sQQ")
_MAGIC_BYTES = 8
_INNER_BYTES = 24
_NOT_ALIKE = "a ciphertext of another level or form, or with a correction factor"


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
_LARGEST_WITHOUT_ANOTHER_PRIME = 163841

TAG_RING = RingParameters(16384, TAG_MODULUS, (60,) * 5)
DISTANCE_RING = RingParameters(16384, 65537, (60,) * 3)


def match_ring(plain_modulus: int) -> RingParameters:
    """The payment network's ring of the run: one product, with room to sanitise at two primes.

    A larger plaintext modulus makes the factors noisier, and needs a prime more.  The noise
    analysis (`circuits`) says that this suffices.
    """
    return RingParameters(16384, plain_modulus, (60,) * (4 + _another_prime(plain_modulus)))


def compare_ring(plain_modulus: int) -> RingParameters:
    """The payment network's ring for the aggregator, paper's model: three products in a row."""
    return RingParameters(16384, plain_modulus, (60,) * (6 + _another_prime(plain_modulus)))


def _another_prime(plain_modulus: int) -> int:
    return int(plain_modulus > _LARGEST_WITHOUT_ANOTHER_PRIME)


def share_ring(plain_modulus: int) -> RingParameters:
    """A bank's ring: two products with plaintexts at three primes, one at two.

    Four bits are left to the limit for 128-bit security; in the other rings it is more.
    """
    return RingParameters(8192, plain_modulus, (60, 58, 40, 56))


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
        self._headers = {
            (n_primes, is_evaluated): self._header(n_primes, is_evaluated=is_evaluated)
            for n_primes in self._parms_ids
            for is_evaluated in (True, False)
        }
        self._fresh_headers = {
            n_primes: self._packed_header(parms_id, n_primes, True, 1)
            for n_primes, parms_id in self._parms_ids.items()
        }
        # A pair of a key has the form of a ciphertext, at a level with the special prime.
        of_keys = self.context.key_context_data()
        self.key_primes = tuple(int(p.value()) for p in of_keys.parms().coeff_modulus())
        self.key_header = self._packed_header(of_keys.parms_id(), len(self.key_primes), True, 1)

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
        return _HEADER.size + self._residue_bytes(n_primes)

    def header(self, n_primes: int, *, is_evaluated: bool = True) -> bytes:
        """The bytes before the residues of every ciphertext that was made at the top and switched
        down to a level; in evaluation form, as all ciphertexts are sent, or as coefficients."""
        return self._headers[n_primes, is_evaluated]

    def _header(self, n_primes: int, *, is_evaluated: bool) -> bytes:
        factor = pow(prod(self.primes[n_primes:]), -1, self.plain_modulus)
        return self._packed_header(self._parms_ids[n_primes], n_primes, is_evaluated, factor)

    def _packed_header(
        self, parms_id: Any, n_primes: int, is_evaluated: bool, factor: int
    ) -> bytes:
        magic = bytes(seal.Ciphertext().to_string(_UNCOMPRESSED))[:_MAGIC_BYTES]
        n_bytes = self._residue_bytes(n_primes)
        return _HEADER.pack(
            *(magic, _HEADER.size + n_bytes, *parms_id),
            *(is_evaluated, 2, self.degree, n_primes, 1.0, factor),
            *(magic, _INNER_BYTES + n_bytes, n_bytes // _BYTES_PER_RESIDUE),
        )

    def _residue_bytes(self, n_primes: int) -> int:
        return 2 * n_primes * self.degree * _BYTES_PER_RESIDUE

    def require_like_fresh(self, ciphertext: Ciphertext, n_primes: int) -> None:
        """Refuse another level or form than this one of a fresh ciphertext, or another factor."""
        if not self.dump(ciphertext).startswith(self._fresh_headers[n_primes]):
            raise CiphertextError(_NOT_ALIKE)

    def from_residues(self, header: bytes, residues: Residues) -> Ciphertext:
        """A ciphertext from raw residues, (2, n_primes, N), that this process computed."""
        return self.context.from_cipher_str(header + residues.tobytes())

    def plaintext(self, header: bytes, residues: Residues) -> Plaintext:
        """A plaintext from raw residues that this process computed; `header`: that of another one
        of the same form."""
        plaintext = seal.Plaintext()
        plaintext.load_bytes(self.context, header + residues.tobytes())
        return plaintext

    def plaintext_parts(self, plaintext: Plaintext) -> tuple[bytes, Residues]:
        """Header and residues of a plaintext."""
        data = bytes(plaintext.to_bytes(_UNCOMPRESSED))
        n_residues = int(plaintext.coeff_count())
        start = len(data) - n_residues * _BYTES_PER_RESIDUE
        return data[:start], np.frombuffer(data, "<u8", offset=start)

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
        if data[: _HEADER.size] != self.header(n_primes):
            raise CiphertextError(_NOT_ALIKE)
        try:
            ciphertext = self.context.from_cipher_str(bytes(data))
        except (RuntimeError, ValueError, IndexError) as error:
            raise CiphertextError(
                f"bytes that are not a ciphertext of this ring (N={self.degree}, "
                f"t={self.plain_modulus}): {error}"
            ) from None
        if ciphertext.is_transparent():
            raise CiphertextError("a ciphertext that anyone can open")
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
        wire.set_coeff_modulus(_primes(parameters))
    except (RuntimeError, ValueError, IndexError) as error:
        raise ParameterError(f"no ring for {parameters}: {error}") from None
    # The default security level is 128 bits; a set that falls short is not accepted.
    context = seal.SEALContext(wire)
    if not context.parameters_set():
        raise ParameterError(f"{parameters}: {context.parameter_error_message()}")
    if not context.first_context_data().qualifiers().using_batching:
        raise ParameterError(f"{parameters}: plain_modulus does not allow batching")
    return context


def _primes(parameters: RingParameters) -> Any:
    bits = list(parameters.prime_bits)
    if parameters.plain_modulus == TAG_MODULUS:
        # None of 60 bits is 1 modulo a prime of 47 and modulo 2N.
        return seal.CoeffModulus.Create(parameters.degree, bits)
    # Primes that are 1 modulo t: switching the modulus then needs no correction factor.
    return seal.CoeffModulus.Create(parameters.degree, seal.Modulus(parameters.plain_modulus), bits)

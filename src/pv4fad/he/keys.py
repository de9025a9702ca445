"""Keys, and the three roles they allow: encrypting, evaluating, decrypting.

Whoever lacks the secret key never holds a `Decryptor`: it takes a `SecretKey`, and only the key's
owner has one.  Keys travel and rest as bytes; a secret key never shows in a repr.  The uniform part
of a public key follows from its name (`uniform_parts`) and is no part of these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import seal
from numpy.typing import NDArray

from pv4fad.errors import CiphertextError
from pv4fad.he.ring import Ciphertext, Plaintext, Residues, Ring, RingParameters
from pv4fad.he.uniform_parts import from_sent, to_sent


@dataclass(frozen=True)
class SecretKey:
    """Opens ciphertexts; stays with its owner."""

    ring: RingParameters
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class PublicKey:
    """Encrypts for the owner of the secret key; with the relinearisation key, multiplies too.

    Another name makes it another key, which opens nothing.
    """

    ring: RingParameters
    name: str
    """Whose key it is, and what for: unique, and not for the owner alone to choose."""
    data: bytes = field(repr=False)
    relinearisation: bytes | None = field(default=None, repr=False)

    def require_valid(self, *, multiplies: bool = False) -> None:
        """Refuse bytes that are not keys of this ring, or cannot do what is asked of them."""
        if multiplies and not self.relinearisation:
            raise CiphertextError("the relinearisation key is missing")
        Encryptor(self)
        Evaluator(self)


@dataclass(frozen=True)
class KeyPair:
    """A party's keys in one ring."""

    secret: SecretKey
    public: PublicKey


def generate_keys(parameters: RingParameters, name: str, *, relinearisation: bool) -> KeyPair:
    """Fresh keys under a name.  The library draws them from the operating system's CSPRNG."""
    ring = Ring.of(parameters)
    generator = seal.KeyGenerator(ring.context)
    secret = bytes(generator.secret_key().to_string())
    public = bytes(generator.create_public_key().to_string())
    relin = None
    if relinearisation:
        drawn = bytes(generator.create_relin_keys().to_string())
        relin = to_sent(ring, name, secret, drawn, relinearisation=True)
    public = to_sent(ring, name, secret, public, relinearisation=False)
    return KeyPair(SecretKey(parameters, secret), PublicKey(parameters, name, public, relin))


class Encryptor:
    """Encrypts with the public key: what the parties without the secret key do."""

    def __init__(self, public: PublicKey) -> None:
        self.ring = Ring.of(public.ring)
        key = _load(public.ring, "public", public.data, public.name)
        self._seal = seal.Encryptor(self.ring.context, key)

    def zero(self, n_primes: int) -> Ciphertext:
        """A fresh encryption of zero at a level."""
        return self._seal.encrypt_zero(self.ring.parms_id(n_primes))


class SecretEncryptor:
    """Encrypts with the secret key: less noise and twice as fast, for the key's owner."""

    def __init__(self, secret: SecretKey) -> None:
        self.ring = Ring.of(secret.ring)
        self._seal = seal.Encryptor(self.ring.context, _load(secret.ring, "secret", secret.data))

    def encrypt(self, values: NDArray[Any]) -> Ciphertext:
        """Fresh encryption of slots, at the top level."""
        return self._seal.encrypt_symmetric(self.ring.encode(values))


class Decryptor:
    """Opens ciphertexts."""

    def __init__(self, secret: SecretKey) -> None:
        self.ring = Ring.of(secret.ring)
        self._seal = seal.Decryptor(self.ring.context, _load(secret.ring, "secret", secret.data))

    def decrypt(self, ciphertext: Ciphertext) -> Residues:
        """The slots, in [0, t)."""
        return self.ring.decode(self._seal.decrypt(ciphertext))

    def phase_bits(self, ciphertext: Ciphertext) -> float:
        """log2 of the largest coefficient of message + t·noise, rounded up by at most one bit.

        For the key holder and the tests of the static bounds only.
        """
        modulus_bits = sum(np.log2(self.ring.primes[: self.ring.level_of(ciphertext)]))
        return float(modulus_bits - 1 - self._seal.invariant_noise_budget(ciphertext))


class Evaluator:
    """Computes on ciphertexts without being able to open them."""

    def __init__(self, public: PublicKey) -> None:
        self.ring = Ring.of(public.ring)
        self._seal = seal.Evaluator(self.ring.context)
        self._relin = None
        if public.relinearisation:
            relin = public.relinearisation
            self._relin = _load(public.ring, "relinearisation", relin, public.name)

    def add(self, into: Ciphertext, other: Ciphertext) -> None:
        """into += other."""
        self._seal.add_inplace(into, other)

    def sub(self, into: Ciphertext, other: Ciphertext) -> None:
        """into −= other."""
        self._seal.sub_inplace(into, other)

    def total(self, ciphertexts: Sequence[Ciphertext]) -> Ciphertext:
        """Their sum, as a new ciphertext."""
        total = seal.Ciphertext(ciphertexts[0])
        for ciphertext in ciphertexts[1:]:
            self._seal.add_inplace(total, ciphertext)
        return total

    def combination(self, ciphertexts: Sequence[Ciphertext], signs: Sequence[int]) -> Ciphertext:
        """Σ sign·ciphertext, as a new ciphertext; signs are −1, 0 and 1, and not all 0."""
        signed = [(c, sign) for c, sign in zip(ciphertexts, signs, strict=True) if sign]
        total = seal.Ciphertext(signed[0][0])
        if signed[0][1] < 0:
            self._seal.negate_inplace(total)
        for ciphertext, sign in signed[1:]:
            (self.add if sign > 0 else self.sub)(total, ciphertext)
        return total

    def doubled_sum(self, ciphertexts: Sequence[Ciphertext]) -> Ciphertext:
        """c_0 + 2·c_1 + 4·c_2 …, with all their noise; one alone is given back as it is."""
        *others, total = ciphertexts
        if others:
            total = seal.Ciphertext(total)
        for ciphertext in reversed(others):
            self._seal.add_inplace(total, total)
            self._seal.add_inplace(total, ciphertext)
        return total

    def add_slots(self, into: Ciphertext, values: NDArray[Any]) -> None:
        """into += plain slots."""
        self._seal.add_plain_inplace(into, self.ring.encode(values))

    def times_slots(self, ciphertext: Ciphertext, values: NDArray[Any]) -> Ciphertext:
        """ciphertext · plain slots, which must not all be zero (see `add_products`)."""
        return self._seal.multiply_plain(ciphertext, self.ring.encode(values))

    def add_products(
        self, into: Ciphertext | None, terms: Iterable[tuple[Ciphertext, NDArray[Any]]]
    ) -> Ciphertext | None:
        """into + Σ ciphertext · plain slots.

        All-zero slots are passed over: the library refuses a product that would be transparent.
        """
        for ciphertext, values in terms:
            if not values.any():
                continue
            product = self.times_slots(ciphertext, values)
            if into is None:
                into = product
            else:
                self._seal.add_inplace(into, product)
        return into

    def prepare(self, values: NDArray[Any], n_primes: int) -> Plaintext:
        """Plain slots, ready to be multiplied several times at one level; not all zero."""
        return self._seal.transform_to_ntt(self.ring.encode(values), self.ring.parms_id(n_primes))

    def add_prepared(
        self, into: Ciphertext | None, ciphertext: Ciphertext, prepared: Plaintext
    ) -> Ciphertext:
        """into + ciphertext · prepared slots."""
        product = self._seal.multiply_plain(ciphertext, prepared)
        if into is None:
            return product
        self._seal.add_inplace(into, product)
        return into

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """left · right, relinearised and switched one prime down, with all its noise."""
        product = self.product(left, right)
        self._seal.relinearize_inplace(product, self._relin)
        self._seal.mod_switch_to_next_inplace(product)
        return product

    def product(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """left · right with three polynomials: to be added to others before it is relinearised."""
        return self._seal.multiply(left, right)

    def sum_of_products(self, pairs: Iterable[tuple[Ciphertext, Ciphertext]]) -> Ciphertext:
        """Σ left · right, relinearised once, at the level of the factors; at least one pair."""
        total = None
        for left, right in pairs:
            product = self.product(left, right)
            if total is None:
                total = product
            else:
                self._seal.add_inplace(total, product)
        self._seal.relinearize_inplace(total, self._relin)
        return total

    def switch_to(self, ciphertext: Ciphertext, n_primes: int) -> Ciphertext:
        """The same plaintext at a lower level."""
        if self.ring.level_of(ciphertext) == n_primes:
            return ciphertext
        return self._seal.mod_switch_to(ciphertext, self.ring.parms_id(n_primes))

    def to_coefficients(self, ciphertext: Ciphertext) -> None:
        """From the form all operations work on to the coefficients (see `sanitise`)."""
        self._seal.transform_from_ntt_inplace(ciphertext)


@lru_cache(maxsize=16)
def _load(parameters: RingParameters, kind: str, data: bytes, name: str = "") -> Any:
    ring = Ring.of(parameters)
    read = {
        "public": ring.context.from_public_str,
        "relinearisation": ring.context.from_relin_str,
        "secret": ring.context.from_secret_str,
    }[kind]
    if kind != "secret":
        data = from_sent(ring, name, data, relinearisation=kind == "relinearisation")
    try:
        return read(data)
    except (RuntimeError, ValueError, IndexError):
        raise CiphertextError(f"bytes that are not a {kind} key of this ring") from None

"""Names of keys, and the payment network's: one pair for each of its rings (protocol.md §7)."""

from __future__ import annotations

from collections.abc import Mapping

from pv4fad.he.keys import KeyPair, generate_keys
from pv4fad.he.ring import RingParameters
from pv4fad.protocol.checks import expect
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.propose.state import NetworkSecret, PublicKeys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.store.records import Records

RingKeys = Mapping[str, KeyPair]
"""By the names of the rings, in their order."""

SHARES = "shares"  # the ring of a bank's key

_MULTIPLIES = {"tags": True, "distances": False, "match": True, "compare": True}


def key_name(parameters: RunParameters, owner: str, ring: str) -> str:
    """What the uniform part of a key follows from: nobody but the run and its roles chooses it."""
    return f"{parameters.run_id}/{owner}/{ring}"


def new_keys(parameters: RunParameters) -> RingKeys:
    """Fresh keys; those of one ring have nothing to do with those of another."""
    return {
        name: generate_keys(
            ring,
            key_name(parameters, PAYMENT_NETWORK, name),
            relinearisation=_MULTIPLIES[name],
        )
        for name, ring in (parameters.network_rings | parameters.aggregator_rings).items()
    }


def new_share_keys(parameters: RunParameters, bank: str) -> KeyPair:
    """Fresh keys of a bank."""
    name = key_name(parameters, bank, SHARES)
    return generate_keys(parameters.share_ring, name, relinearisation=False)


def keep_new_keys(parameters: RunParameters, run: Records) -> None:
    """Fresh keys at the payment network."""
    for name, pair in new_keys(parameters).items():
        public = pair.public
        run.put(NetworkSecret(pair.secret.data), name)
        run.put(PublicKeys(public.name, public.data, public.relinearisation or b""), name)


def keep_public_keys(
    message: RunProposal,
    parameters: RunParameters,
    rings: Mapping[str, RingParameters],
    run: Records,
) -> None:
    """At the others, checked: `rings` are those whose keys this party needs."""
    expect(
        len(message.public_keys) == len(message.relinearisation_keys) == len(rings),
        message,
        "wrong number of keys",
    )
    received = zip(message.public_keys, message.relinearisation_keys, strict=True)
    for (name, ring), (public, relinearisation) in zip(rings.items(), received, strict=True):
        of_key = key_name(parameters, PAYMENT_NETWORK, name)
        keys = PublicKeys(of_key, public, relinearisation)
        keys.key(ring).require_valid(multiplies=_MULTIPLIES[name])
        run.put(keys, name)

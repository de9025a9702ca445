"""The payment network's keys: one pair for each of its rings (protocol.md §7)."""

from __future__ import annotations

from collections.abc import Mapping

from pv4fad.he.keys import KeyPair, generate_keys
from pv4fad.he.ring import RingParameters
from pv4fad.protocol.checks import expect
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.propose.state import NetworkKeys, PublicKeys
from pv4fad.store.records import Records

RingKeys = Mapping[str, KeyPair]
"""By the names of the rings, in their order."""

_MULTIPLIES = {"tags": True, "distances": False, "match": True}


def new_keys(parameters: RunParameters) -> RingKeys:
    """Fresh keys; those of one ring have nothing to do with those of another."""
    return {
        name: generate_keys(ring, relinearisation=_MULTIPLIES[name])
        for name, ring in parameters.network_rings.items()
    }


def kept_keys(parameters: RunParameters, run: Records) -> RingKeys:
    """Those of an earlier match."""
    rings = parameters.network_rings
    return {name: run.get(NetworkKeys, name).pair(ring) for name, ring in rings.items()}


def keep_keys(keys: RingKeys, run: Records) -> None:
    """At the payment network."""
    for name, pair in keys.items():
        public = pair.public
        kept = NetworkKeys(pair.secret.data, public.data, public.relinearisation or b"")
        run.put(kept, name)


def keep_public_keys(
    message: RunProposal, rings: Mapping[str, RingParameters], run: Records
) -> None:
    """At the others, checked: `rings` are those whose keys this party needs."""
    expect(
        len(message.public_keys) == len(message.relinearisation_keys) == len(rings),
        message,
        "wrong number of keys",
    )
    received = zip(message.public_keys, message.relinearisation_keys, strict=True)
    for (name, ring), (public, relinearisation) in zip(rings.items(), received, strict=True):
        keys = PublicKeys(public, relinearisation)
        keys.key(ring).require_valid(multiplies=_MULTIPLIES[name])
        run.put(keys, name)

"""The card of a party: what the others need to know about it before a run; all of it is public.

Cards are sent by any means (mail, a shared folder).  Whoever replaces a card on its way takes that
party's place, so people compare fingerprints by telephone: `fingerprint` covers every entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pv4fad.deployment.certificates import read_certificate
from pv4fad.errors import DataError, ParameterError, ProtocolError
from pv4fad.protocol.identity import PublicIdentity
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK, role_text
from pv4fad.protocol.wire import Address
from pv4fad.validated import ValidatedModel
from pv4fad.words import Words

Role = Literal["payment-network", "aggregator", "bank"]
ROLES: tuple[Role, ...] = ("payment-network", "aggregator", "bank")
_FINGERPRINT_GROUPS = 8  # of four hexadecimal digits: 128 bits


class PartyCard(ValidatedModel):
    """One party as the others see it."""

    format: Literal["pv4fad card"] = "pv4fad card"
    version: Literal[3] = 3
    role: Role
    name: str
    identity: str
    """Ed25519 and X25519 key, signed (`PublicIdentity`); hex."""
    certificate: str
    """With which it proves who it is when it connects, as PEM; signed by its own key."""
    names: tuple[str, ...] = ()
    """A bank: what rows call it; for payments, the BICs whose accounts it keeps."""
    accounts: int = Field(default=0, ge=0)
    """A bank: how many accounts it declares, padded."""

    @property
    def public(self) -> PublicIdentity:
        """Its keys, verified."""
        identity = PublicIdentity.from_bytes(bytes.fromhex(self.identity))
        if identity.name != self.name:
            raise ProtocolError(f"the card of {self.name} carries the keys of {identity.name}")
        return identity

    @property
    def fingerprint(self) -> str:
        """For people to compare."""
        digest = hashlib.sha256(self._canonical()).hexdigest()
        return "-".join(digest[4 * i : 4 * i + 4] for i in range(_FINGERPRINT_GROUPS))

    def _canonical(self) -> bytes:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


def read_card(path: Path) -> PartyCard:
    """A card from its file, with its signature verified."""
    try:
        card = PartyCard.model_validate_json(path.read_text(encoding="utf-8"))
        _require_consistent(card)
    except (ValidationError, UnicodeDecodeError):
        raise DataError(f"{path} is not the card of a party") from None
    except (ValueError, ProtocolError, ParameterError) as error:
        raise DataError(f"{path}: {error}") from None
    return card


def _require_consistent(card: PartyCard) -> None:
    Address(card.name, card.name, "run")  # checks the name, which becomes a file name
    read_certificate(card.certificate)
    if card.public.name != card.name:
        raise ProtocolError("the keys belong to another party")
    own_name = {"payment-network": PAYMENT_NETWORK, "aggregator": AGGREGATOR}.get(card.role)
    if own_name is not None and card.name != own_name:
        raise ParameterError(f"a party of role {card.role} has the name {own_name}")
    if card.role == BANK and (not card.names or not card.accounts):
        raise ParameterError("the card of a party with records has its names and their number")


def federation_id(cards: Iterable[PartyCard]) -> str:
    """Identifies a federation by its members and their keys; the same for all of them."""
    keys = sorted((card.name, card.identity) for card in cards)
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:32]


def require_complete(cards: Mapping[str, PartyCard], words: Words) -> None:
    """A federation has a payment network, an aggregator and a bank, and no name twice."""
    missing = [role for role in ROLES if all(card.role != role for card in cards.values())]
    if missing:
        raise DataError(
            f"the card of the {role_text(missing[0], words)} is missing: import it with pv4fad"
            " party join"
        )
    directory(cards)


def directory(cards: Mapping[str, PartyCard]) -> dict[str, str]:
    """What rows call a bank → the bank."""
    found: dict[str, str] = {}
    for party, card in cards.items():
        for name in card.names:
            if name in found:
                raise DataError(f"{found[name]} and {party} both declare records of {name}")
            found[name] = party
    return found

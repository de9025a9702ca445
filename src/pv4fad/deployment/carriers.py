"""The carriers there are, by the names that party.toml has for them."""

from __future__ import annotations

from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.party_folder import CarrierName


def carrier_of(name: CarrierName) -> Carrier:
    """Imported when it is needed: a carrier's libraries take their time."""
    if name == "flower":
        from pv4fad.deployment.flower.programs import FlowerCarrier  # noqa: PLC0415

        return FlowerCarrier()
    from pv4fad.deployment.hub.carrier import HubCarrier  # noqa: PLC0415

    return HubCarrier()

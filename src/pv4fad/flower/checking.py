"""`pv4fad party check`: everything that can be known to be wrong before a run."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pv4fad import __version__
from pv4fad.errors import DataError, Pv4fadError, StoreError
from pv4fad.flower.card import PartyCard, federation_id
from pv4fad.flower.certificates import certificate_valid_until, require_key_fits
from pv4fad.flower.party_folder import PartyFolder, PartySettings, read_identity
from pv4fad.lead.bank_files import load_bank
from pv4fad.lead.score import checked_share
from pv4fad.payments.loading import load_transactions
from pv4fad.privacy.epsilon import epsilon_text
from pv4fad.privacy.ledger import read_ledger
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.protocol.tables import padded
from pv4fad.store.sealing import Passphrase

FLOWER_VERSION = "1.41.0"
_FREE_BYTES = 5 * 10**9


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    what: str
    good: bool
    found: str


def check_party(folder: PartyFolder, passphrase: Passphrase) -> list[Finding]:
    """All checks, each with what it found."""
    settings = folder.settings()
    checks: dict[str, Callable[[], str]] = {
        "store": lambda: _store(folder, settings, passphrase),
        "data": lambda: _data(folder, settings),
        "cards": lambda: _cards(folder),
        "keys": lambda: _keys(folder, settings),
        "certificate": lambda: _certificate(folder, settings),
        "versions": _versions,
        "free disk": lambda: _disk(folder.path),
    }
    if settings.role == "payment-network":
        checks["training"] = lambda: _training(settings)
    if settings.role == BANK:
        checks["noise"] = lambda: noise_text(settings, folder.cards())
    return [_finding(what, check) for what, check in checks.items()]


def _finding(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, check())
    except (Pv4fadError, OSError, ValueError) as error:
        return Finding(what, False, str(error))


def _store(folder: PartyFolder, settings: PartySettings, passphrase: Passphrase) -> str:
    with folder.open_store(passphrase) as store:
        identity = read_identity(store)
        if store.party != settings.name:
            raise StoreError(f"it belongs to {store.party}, party.toml says {settings.name}")
        if identity.public().to_bytes().hex() != folder.own_card().identity:
            raise StoreError("card.json does not show the keys of the store")
        if settings.role != BANK:
            return "opens"
        ledger = read_ledger(store)
        if ledger.limit is None:
            raise StoreError("no limit for ε is set: pv4fad ledger set-limit")
        return f"opens; ε spent {epsilon_text(ledger.spent)} of {epsilon_text(ledger.limit)}"


def _data(folder: PartyFolder, settings: PartySettings) -> str:
    if settings.role == AGGREGATOR:
        return "none needed"
    if not settings.data:
        raise DataError("party.toml names no data")
    path = folder.file(settings.data)
    if settings.role == BANK:
        accounts, card = load_bank(path), folder.own_card()
        if padded(accounts.height) > card.accounts or not set(card.bics) >= set(accounts["Bank"]):
            raise DataError(
                "more accounts or other BICs than the card declares: pv4fad party card --renew,"
                " and give the new card to all others"
            )
        return f"{accounts.height:,} accounts"
    n = load_transactions(path, labels_required=True).frame.height
    if not settings.new_transactions:
        return f"{n:,} transactions"
    new = load_transactions(folder.file(settings.new_transactions), labels_required=False).frame
    return f"{n:,} transactions, {new.height:,} to score"


def _cards(folder: PartyFolder) -> str:
    cards = folder.complete_cards()
    return f"{', '.join(cards)}; federation {federation_id(cards.values())}"


def _keys(folder: PartyFolder, settings: PartySettings) -> str:
    name = "keys/superlink.key" if settings.role == AGGREGATOR else "keys/node"
    mode = folder.file(name).stat().st_mode
    if stat.S_IMODE(mode) & 0o077:
        raise DataError(f"{folder.file(name)} is open to others; run: chmod 600")
    return f"{name} is there, for its owner only"


def _certificate(folder: PartyFolder, settings: PartySettings) -> str:
    until = certificate_valid_until(folder.file(settings.root_certificate))
    if settings.role == AGGREGATOR:
        own = folder.file("keys/superlink.crt")
        until = min(until, certificate_valid_until(own))
        require_key_fits(own, folder.file("keys/superlink.key"))
    return f"valid until {until:%Y-%m-%d}"


def _versions() -> str:
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise DataError("Flower is not installed: pip install 'pv4fad[flower]'") from None
    if found != FLOWER_VERSION:
        raise DataError(f"flwr {found} is installed; PV4FAD was tested with {FLOWER_VERSION}")
    return f"pv4fad {__version__}, flwr {found}"


def _disk(path: Path) -> str:
    free = shutil.disk_usage(path).free
    if free < _FREE_BYTES:
        raise DataError(f"{free / 10**9:.1f} GB are free; a run needs some {_FREE_BYTES // 10**9}")
    if not os.access(path, os.W_OK):
        raise DataError("the folder cannot be written to")
    return f"{free / 10**9:.0f} GB"


def _training(settings: PartySettings) -> str:
    if settings.training is None:
        raise DataError("party.toml has no [training]: give at least epsilon")
    training, share = settings.training, checked_share(settings.alert_share, settings.training)
    if share is None:
        return f"ε = {training.epsilon}, the paper's model, scored by {training.scoring}"
    return f"ε = {training.epsilon}, {100 * share:g} % of payments expected to become alerts"


def noise_text(settings: PartySettings, cards: Mapping[str, PartyCard]) -> str:
    """On whom a bank relies."""
    n_banks = sum(card.role == BANK for card in cards.values())
    return (
        f"relies on at most {settings.most_honest_banks(cards)} of {n_banks} banks, itself"
        " included; a run that needs more is refused (honest-banks in party.toml)"
    )

"""`pv4fad party check`: problems that can be found before a run."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from pv4fad import __version__
from pv4fad.audit.catch_up import require_caught_up
from pv4fad.deployment.card import PartyCard, federation_id
from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.certificates import certificate_valid_until, require_key_fits
from pv4fad.deployment.party_folder import (
    KEY_FILE,
    PartyFolder,
    PartySettings,
    read_identity,
)
from pv4fad.errors import DataError, Pv4fadError, StoreError
from pv4fad.lead.data import load_holder, load_rows
from pv4fad.lead.score import checked_share
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.epsilon import epsilon_text
from pv4fad.privacy.ledger import read_ledger
from pv4fad.protocol.roles import AGGREGATOR, BANK, in_words
from pv4fad.protocol.tables import padded
from pv4fad.schema import Schema
from pv4fad.store.file import FORMAT_VERSION
from pv4fad.store.sealing import RootKey
from pv4fad.words import Words

_FREE_BYTES = 5 * 10**9


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    good: bool
    found: str


def check_party(folder: PartyFolder, root_key: RootKey, carrier: Carrier) -> list[Finding]:
    """The results of all checks."""
    settings = folder.settings()
    checks: dict[str, Callable[[], str]] = {
        "store": lambda: _store(folder, settings, root_key),
        "data": lambda: _data(folder, settings),
        "cards": lambda: _cards(folder),
        "keys": lambda: _keys(folder),
        "certificate": lambda: _certificate(folder),
        "versions": lambda: f"pv4fad {__version__}, {carrier.version()}",
        "free disk": lambda: _disk(folder.path),
    }
    if settings.role == "payment-network":
        checks["training"] = lambda: _training(settings, folder.schema().words)
    if settings.role == BANK:
        checks["noise"] = lambda: noise_text(settings, folder.cards(), folder.schema().words)
    return [_finding(what, check) for what, check in checks.items()]


def _finding(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, check())
    except (Pv4fadError, OSError, ValueError) as error:
        return Finding(what, False, str(error))


def _store(folder: PartyFolder, settings: PartySettings, root_key: RootKey) -> str:
    with folder.open_store(root_key) as store:
        identity = read_identity(store)
        if store.party != settings.name:
            raise StoreError(
                f"the store belongs to {store.party}, but party.toml says {settings.name}"
            )
        if identity.public().to_bytes().hex() != folder.own_card().identity:
            raise StoreError("card.json has other keys than the store")
        require_caught_up(store)
        opens = f"format {FORMAT_VERSION}, opens with a {store.lock.kind}"
        if settings.role != BANK:
            return opens
        ledger = read_ledger(store)
        if ledger.limit is None:
            raise StoreError("no limit for ε is set: pv4fad ledger set-limit")
        spent, limit = epsilon_text(ledger.spent), epsilon_text(ledger.limit)
        year = delta_text(ledger.delta.of_year(datetime.now(UTC).date()))
        return (
            f"{opens}; ε spent {spent} of {limit}, δ of the last 365 days {year} of"
            f" {delta_text(ledger.delta.limit)}"
        )


def _data(folder: PartyFolder, settings: PartySettings) -> str:
    if settings.role == AGGREGATOR:
        return "none needed"
    if not settings.data:
        raise DataError("party.toml has no entry data")
    path, schema = folder.file(settings.data), folder.schema()
    if settings.role == BANK:
        records, card = load_holder(schema, path, settings.name), folder.own_card()
        if padded(records.height) > card.accounts or not set(card.names) >= set(records["Holder"]):
            raise DataError(
                "more records or other names than on the card: run pv4fad party card"
                " --renew and give the new card to all others"
            )
        return schema.words(f"{records.height:,} {{records}}: {class_counts(schema, records)}")
    n = load_rows(schema, path, labels_required=True).height
    if not settings.new_transactions:
        return schema.words(f"{n:,} {{rows}}")
    new = load_rows(schema, folder.file(settings.new_transactions), labels_required=False)
    return schema.words(f"{n:,} {{rows}}, {new.height:,} to score")


def class_counts(schema: Schema, records: pl.DataFrame) -> str:
    """How many records there are of each class; for the eyes of their holder only."""
    counts = dict(records["Class"].cast(pl.String).value_counts().iter_rows())
    return ", ".join(f"{counts.get(name, 0):,} {name}" for name in schema.record.classes)


def _cards(folder: PartyFolder) -> str:
    cards = folder.complete_cards()
    names = in_words(", ".join(cards), folder.schema().words)
    return f"{names}; federation {federation_id(cards.values())}"


def _keys(folder: PartyFolder) -> str:
    key = folder.file(KEY_FILE)
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        raise DataError(f"{key} can be read by others; run: chmod 600")
    require_key_fits(folder.own_card().certificate, key)
    return f"{KEY_FILE} exists, readable by its owner only"


def _certificate(folder: PartyFolder) -> str:
    cards = folder.cards()
    used = [folder.own_card(), *(card for card in cards.values() if card.role == AGGREGATOR)]
    return f"valid until {min(certificate_valid_until(card.certificate) for card in used):%Y-%m-%d}"


def _disk(path: Path) -> str:
    free = shutil.disk_usage(path).free
    if free < _FREE_BYTES:
        raise DataError(f"{free / 10**9:.1f} GB are free; a run needs about {_FREE_BYTES // 10**9}")
    if not os.access(path, os.W_OK):
        raise DataError("the folder cannot be written to")
    return f"{free / 10**9:.0f} GB"


def _training(settings: PartySettings, words: Words) -> str:
    if settings.training is None:
        raise DataError("party.toml has no [training] section: it needs at least epsilon")
    training, share = settings.training, checked_share(settings.alert_share, settings.training)
    if share is None:
        return f"ε = {training.epsilon}, the paper's model, scored by {training.scoring}"
    return words(f"ε = {training.epsilon}, {100 * share:g} % of {{rows}} expected to become alerts")


def noise_text(settings: PartySettings, cards: Mapping[str, PartyCard], words: Words) -> str:
    """How many holders a holder relies on to add noise, and which."""
    banks, policy = {card.name for card in cards.values() if card.role == BANK}, settings.policy
    relied = None if policy.relies_on is None else {settings.name, *policy.relies_on}
    if relied is not None and not relied <= banks:
        raise DataError(
            f"party.toml: relies-on names {', '.join(sorted(relied - banks))}, whose cards are not"
            " here: import them (pv4fad party join), or mend the names"
        )
    of_them = "" if relied is None else f", and these must be among {', '.join(sorted(relied))}"
    return words(
        f"relies on at most {policy.most_honest_banks(len(banks))} of {len(banks)} {{holders}},"
        f" itself included{of_them}; a run that needs more is refused (party.toml)"
    )

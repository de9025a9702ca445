"""The folder of a party in a deployed federation, on its own machine.

party.toml       what its operator decides (`PartySettings`)
card.json        what the others need to know of it; public
cards/           the cards of the others, one file each
store.db         its store: identity, ledger, shares; locked with its root key
keys/            the key of its connections; its certificate is on its card
runs/, predictions/    payment network: results
status.json            aggregator: state of the latest job

A carrier keeps its own files in a folder of its name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from pv4fad.deployment.card import PartyCard, Role, read_card, require_complete
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.files import write_whole
from pv4fad.lead.asking import Batching
from pv4fad.lead.score import How
from pv4fad.lead.settings import TrainingSettings
from pv4fad.listening import Listen
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.identity import Identity, stored_identity
from pv4fad.protocol.live.budget import DEFAULT_TICKS_PER_DAY
from pv4fad.protocol.live.plan import default_tick_ms
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.protocol.score.metering import DEFAULT_BUDGET
from pv4fad.schema import Schema, read_schema
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import party_of
from pv4fad.store.sealing import RootKey
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel
from pv4fad.workers import Workers, given_workers

CarrierName = Literal["hub", "flower"]
CARRIERS: tuple[CarrierName, ...] = ("hub", "flower")
SETTINGS_FILE, CARD_FILE = "party.toml", "card.json"
KEY_FILE = "keys/connection.key"
LONGEST_TICK_MS = 10_000
_TIMEOUT_MS, _LEAST_TICKS = 1_000, 4


class LiveSettings(ValidatedModel):
    """The clock of live questions: public, the same whatever is asked."""

    tick_ms: int | None = Field(default=None, ge=10, le=LONGEST_TICK_MS)
    """The time from one query to the next, of every bank.

    By default 50 for up to 4 banks, and 10 more for each bank beyond.
    """
    timeout_ms: int | None = Field(default=None, ge=100, le=60_000)
    """How long a payment waits for banks before it is decided without them.

    By default 1000, and 4 ticks at least.
    """

    def times_ms(self, n_banks: int) -> tuple[int, int]:
        """Of a tick, and the timeout."""
        tick = self.tick_ms or default_tick_ms(n_banks)
        timeout = self.timeout_ms or max(_TIMEOUT_MS, _LEAST_TICKS * tick)
        if timeout < _LEAST_TICKS * tick:
            raise ParameterError(
                f"live: timeout-ms {timeout} is less than {_LEAST_TICKS} ticks of {tick} ms: no"
                " bank could answer in time"
            )
        return tick, timeout


class PartySettings(ValidatedModel):
    """party.toml; dashes in the file where the names here have underscores."""

    role: Role
    """What the party is in the federation."""
    name: str
    """As on its card."""
    hub: str = "127.0.0.1:8000"
    """The address of the aggregator's hub, host:port."""
    listen: str = ""
    """The aggregator: the address at which it listens, if another; for example 0.0.0.0:8000."""
    carrier: CarrierName = "hub"
    """What carries the messages, the same for all parties: hub, or flower."""
    metrics: str = ""
    """Where Prometheus and probes find the station's figures, host:port; nowhere by default.

    Elsewhere than on loopback with TLS, and a token for metrics.
    """
    metrics_certificate: str = ""
    """The certificate of that address (PEM)."""
    metrics_key: str = ""
    """Its private key (PEM)."""
    network_starts_jobs: bool = True
    """The aggregator: whether the payment network may start jobs, too."""
    runtime_port: int = Field(default=9094, ge=1, le=65535)
    """Flower only: a free port on this machine for the node's own use; not open to others."""
    workers: Annotated[Workers, AfterValidator(given_workers)] = None
    """Worker processes for encryption, `ray`, or the address of this party's Ray cluster.

    By default one process per core.
    """
    key: str = ""
    """What unlocks its store, if no passphrase: file:, env: or pkcs11: (docs/operate/keys.md)."""
    data: str = ""
    """A bank's account file; the payment network's labelled transactions."""
    data_schema: str = ""
    """The file of the schema, the same for all parties; by default the schema of payments."""
    new_transactions: str = ""
    """The payment network: transactions to score."""
    desk_labels: str = ""
    """The payment network: labels from its alert desk, for the next training."""
    layers_per_day: int = Field(default=DEFAULT_LAYERS_PER_DAY, ge=1)
    """A bank: how many rounds of questions, or layers of votes, it answers per table and day."""
    positives_per_day: int = Field(default=DEFAULT_BUDGET.positives_per_day, ge=0)
    """A bank, metered runs: how many answers a day may be positive."""
    metered_release: int = Field(default=0, ge=0)
    """A bank, metered runs: raise it to go on after the aggregator has stopped its answers."""
    live_ticks_per_day: int = Field(default=DEFAULT_TICKS_PER_DAY, ge=0)
    """A bank: how many live queries it answers per day, over all runs."""
    alert_share: float | None = Field(default=None, gt=0)
    """The payment network: expected share of payments that become alerts; at most as trained."""
    batch: int = Field(default=Batching().transactions, ge=1)
    """The payment network, votes only: transactions in a batch."""
    layers: int = Field(default=Batching().layers, ge=1)
    """The payment network, votes only: the number of layers is rounded up to a multiple."""
    training: TrainingSettings | None = None
    """The payment network: how to train (docs/operate/training.md)."""
    policy: Policy = Policy()
    """A bank: the runs in which it takes part."""
    live: LiveSettings = LiveSettings()
    """The payment network: `tick-ms` and `timeout-ms` of its live service."""

    @field_validator("training", "policy", "live", mode="before")
    @classmethod
    def _with_underscores(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key.replace("-", "_"): item for key, item in value.items()}
        return value

    @property
    def how(self) -> How:
        """How the payment network scores."""
        return How(self.alert_share, Batching(self.batch, self.layers))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the hub, as others reach it."""
        return _host_and_port(self.hub)

    @property
    def listens_at(self) -> tuple[str, int]:
        """Host and port at which the aggregator listens."""
        return _host_and_port(self.listen or self.hub)

    @property
    def metrics_at(self) -> tuple[str, int] | None:
        """Host and port of the station's figures."""
        return _host_and_port(self.metrics) if self.metrics else None


def settings_of(content: Mapping[str, Any]) -> PartySettings:
    """The settings that a party.toml holds."""
    return PartySettings(**{key.replace("-", "_"): value for key, value in content.items()})


class PartyFolder:
    """A party on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def settings(self) -> PartySettings:
        path = self.path / SETTINGS_FILE
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"{self.path} is not the folder of a party ({SETTINGS_FILE} is missing): create one"
                " with pv4fad party init"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"{path}: {error}") from None
        try:
            return settings_of(content)
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from None

    def file(self, name: str) -> Path:
        """A file that the settings name: absolute, or beside party.toml."""
        return self.path / name

    def schema(self) -> Schema:
        """Of the data: that of payments, or the file that party.toml names."""
        name = self.settings().data_schema
        return read_schema(self.file(name)) if name else SCHEMA

    def metrics_address(self) -> Listen | None:
        """Where the station shows its figures; `ParameterError` if it must not be there."""
        settings = self.settings()
        if settings.metrics_at is None:
            return None
        files = (settings.metrics_certificate, settings.metrics_key)
        certificate, key = (self.file(name) if name else None for name in files)
        return Listen(*settings.metrics_at, certificate, key)

    def own_card(self) -> PartyCard:
        return read_card(self.path / CARD_FILE)

    def cards(self) -> dict[str, PartyCard]:
        """The cards of all known parties, this one included, sorted by name."""
        found = [self.own_card()]
        found += [read_card(path) for path in sorted((self.path / "cards").glob("*.json"))]
        by_name = {card.name: card for card in sorted(found, key=lambda card: card.name)}
        if len(by_name) < len(found):
            raise DataError(f"{self.path / 'cards'}: two cards have the same name")
        return by_name

    def complete_cards(self) -> dict[str, PartyCard]:
        """The cards of all parties; `DataError` if a role is missing."""
        cards = self.cards()
        require_complete(cards, self.schema().words)
        return cards

    def import_card(self, path: Path) -> PartyCard:
        """Keep the card of another party; `DataError` if its keys differ from those known."""
        card, target = read_card(path), self.path / "cards"
        if card.name == self.own_card().name:
            if card != self.own_card():
                raise DataError(f"{path}: another party's card with this party's name, {card.name}")
            return card
        kept = target / f"{card.name}.json"
        known = read_card(kept) if kept.exists() else card
        if (known.identity, known.certificate) != (card.identity, card.certificate):
            raise DataError(
                f"{path}: {card.name} is known with other keys; if {card.name} confirms the new"
                f" ones, delete {kept} and repeat"
            )
        target.mkdir(mode=0o700, exist_ok=True)
        write_whole(kept, card.to_json(), private=True)
        return card

    def open_store(self, root_key: RootKey, *, shared: bool = False) -> DiskStore:
        """As its owner; `shared`: others may be guests meanwhile."""
        if shared:
            return DiskStore.open_shared(self.path, root_key, owner=True)
        return DiskStore.open(self.path, root_key)

    def visit_store(self, root_key: RootKey) -> DiskStore:
        """As a guest, whether or not its owner has it open."""
        return DiskStore.open_shared(self.path, root_key, owner=False)

    def party_name(self) -> str:
        """The name in the store; needs no root key."""
        return party_of(self.path)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ParameterError(f"address {address!r}: write host:port")
    return host.strip("[]"), int(port)


def read_identity(store: Store) -> Identity:
    """The keys in a party's store."""
    identity = stored_identity(store)
    if identity is None:
        raise StoreError(
            f"the store of {store.party} holds no keys: create it with pv4fad party init"
        )
    return identity

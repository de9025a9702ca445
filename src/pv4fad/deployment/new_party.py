"""`pv4fad party init`: a folder for a party, with its own keys.

Everything is created on the party's own machine.  Only the card leaves it.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pv4fad.deployment.card import PartyCard, Role
from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.party_folder import (
    CARD_FILE,
    KEY_FILE,
    SETTINGS_FILE,
    CarrierName,
    PartyFolder,
    settings_of,
)
from pv4fad.errors import DataError, ParameterError, ProtocolError, StoreError
from pv4fad.files import write_whole
from pv4fad.lead.data import load_holder, load_rows
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.identity import create_identity
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK
from pv4fad.protocol.tables import padded
from pv4fad.protocol.wire import Address
from pv4fad.randomness import secret_bytes
from pv4fad.schema import read_schema
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import RootKey


@dataclass(frozen=True)
class NewParty:
    """What the party's operator decides."""

    role: Role
    name: str
    hub: str
    data: Path | None = None
    schema: Path | None = None
    """The file of the schema; None: that of payments."""
    new_transactions: Path | None = None
    epsilon: str | None = None
    """The payment network: of the first training."""
    limit: Epsilon | None = None
    """A bank: the ε that it allows in total."""
    carrier: CarrierName = "hub"
    runtime_port: int | None = None
    """Flower: a port for the node's own use."""


def create_party(path: Path, new: NewParty, root_key: Callable[[], RootKey]) -> PartyCard:
    """Create the folder, which must be new or empty; returns the card for the others.

    `root_key` is called after everything else was checked.  If something fails, no folder is
    left behind.
    """
    _require_consistent(new)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoreError(f"{path} is not empty; choose a new or empty folder")
    names: tuple[str, ...] = ()
    n_accounts = 0
    schema = SCHEMA if new.schema is None else read_schema(new.schema)
    if new.role == BANK and new.data is not None:
        records = load_holder(schema, new.data, new.name)
        names, n_accounts = tuple(records["Holder"].unique().sort()), padded(records.height)
    elif new.data is not None:
        load_rows(schema, new.data, labels_required=True)
    text = _settings_text(new)
    settings = settings_of(tomllib.loads(text))
    host, _ = settings.address
    given = root_key()
    # Created beside, then renamed: a folder that was filled in the meantime is left alone.
    made = path.with_name(f".{path.name}.{secret_bytes(4).hex()}.new")
    try:
        card = _make(made, new, given, text=text, host=host, names=names, n_accounts=n_accounts)
        made.rename(path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return card


def _make(
    path: Path,
    new: NewParty,
    root_key: RootKey,
    *,
    text: str,
    host: str,
    names: tuple[str, ...],
    n_accounts: int,
) -> PartyCard:
    with DiskStore.create(path, new.name, root_key) as store:
        identity = create_identity(store).public()
        if new.limit is not None:
            with store.transaction() as tx:
                set_limit(tx, new.limit, datetime.now(UTC))
    folder = PartyFolder(path)
    write_whole(folder.path / SETTINGS_FILE, text, private=True)
    key = folder.file(KEY_FILE)
    key.parent.mkdir(mode=0o700)
    certificate = new_certificate(key, host if new.role == AGGREGATOR else "")
    card = PartyCard(
        role=new.role,
        name=new.name,
        identity=identity.to_bytes().hex(),
        certificate=certificate,
        names=names,
        accounts=n_accounts,
    )
    write_whole(folder.path / CARD_FILE, card.to_json(), private=True)
    return card


def renew_card(folder: PartyFolder) -> PartyCard:
    """Update the names (BICs) and the number of accounts on a bank's card from its account file."""
    card, settings = folder.own_card(), folder.settings()
    if card.role != BANK:
        return card
    records = load_holder(folder.schema(), folder.file(settings.data), settings.name)
    card = card.model_copy(
        update={
            "names": tuple(records["Holder"].unique().sort()),
            "accounts": padded(records.height),
        }
    )
    write_whole(folder.path / CARD_FILE, card.to_json(), private=True)
    return card


def _require_consistent(new: NewParty) -> None:
    fixed = {"payment-network": PAYMENT_NETWORK, "aggregator": AGGREGATOR}.get(new.role, new.name)
    if new.name != fixed or (new.role == BANK and new.name in (PAYMENT_NETWORK, AGGREGATOR)):
        raise ParameterError(f"name {new.name!r}: not possible for a party of role {new.role}")
    try:
        Address(new.name, new.name, "run")
    except ProtocolError:  # no message could carry it
        raise ParameterError(
            f"name {new.name!r}: give up to 128 letters, digits, dots, dashes and underscores"
        ) from None
    if new.role != AGGREGATOR and new.data is None:
        raise DataError("--data is missing: the file with this party's data")
    if new.role == BANK and new.limit is None:
        raise ParameterError(
            "--limit is missing: the ε that this party allows in total, for example 3"
        )
    for file in (new.data, new.new_transactions, new.schema):
        # A payment network's messages may be a folder.
        may_be_folder = new.role == PAYMENT_NETWORK and file is not new.schema
        if file is not None and not (file.is_file() or (may_be_folder and file.is_dir())):
            raise DataError(
                f"{file} {'is a folder, not a file' if file.is_dir() else 'does not exist'}"
            )
    for option, value, role in (
        ("--epsilon", new.epsilon, PAYMENT_NETWORK),
        ("--new-transactions", new.new_transactions, PAYMENT_NETWORK),
        ("--limit", new.limit, BANK),
    ):
        if value is not None and new.role != role:
            raise ParameterError(f"{option}: only for a party of role {role}")
    if new.role == AGGREGATOR and (new.data is not None or new.schema is not None):
        raise ParameterError("--data, --schema: the aggregator has no data")


def _settings_text(new: NewParty) -> str:
    entries: dict[str, str | int] = {
        "role": new.role,
        "name": new.name,
        "hub": new.hub,
        "carrier": new.carrier,
    }
    if new.runtime_port is not None:
        entries["runtime-port"] = new.runtime_port
    if new.data is not None:
        entries["data"] = str(new.data.absolute())
    if new.schema is not None:
        entries["data-schema"] = str(new.schema.absolute())
    if new.new_transactions is not None:
        entries["new-transactions"] = str(new.new_transactions.absolute())
    lines = [f"{name} = {_toml(value)}" for name, value in entries.items()]
    if new.role == "payment-network":
        training = [
            "[training]  # the options of docs/operate/training.md, except those about one machine",
            f"epsilon = {_toml(new.epsilon or '1')}",
        ]
        lines += ["", *(training if new.epsilon else (f"# {line}" for line in training))]
    return "\n".join(lines) + "\n"


def _toml(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

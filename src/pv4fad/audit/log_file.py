"""A party's log as a file, for others to read: ids, digests and signatures, and nothing secret.

Of a bank also its ledger: what it has spent, on which run, under which limit.  Of each run also the
commitment of the payment network, as it was proposed to this party.  Of live messages the marks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError

from pv4fad.audit.live_marks import LiveMark
from pv4fad.audit.log import Chain, Direction, Entry, ledger_salt
from pv4fad.audit.stamp import SALT_BYTES, Mark, Stamp
from pv4fad.errors import DataError, ProtocolError
from pv4fad.privacy.ledger import Spent, raw_entries
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.state import Proposal
from pv4fad.store.records import Records, run_ids
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel, problems_text

Hex = str
_NO_SALT = bytes(SALT_BYTES)


class LoggedMark(ValidatedModel):
    """`Mark`."""

    number: int
    head: Hex

    @classmethod
    def of(cls, mark: Mark) -> Self:
        return cls(number=mark.number, head=mark.head.hex())

    def mark(self) -> Mark:
        return Mark(self.number, bytes.fromhex(self.head))


class LoggedSpent(ValidatedModel):
    """`Spent`."""

    epsilon_steps: int = Field(ge=0, lt=2**64)
    delta_steps: int = Field(ge=0, lt=2**64)

    @classmethod
    def of(cls, spent: Spent) -> Self:
        return cls(epsilon_steps=spent.epsilon_steps, delta_steps=spent.delta_steps)

    def spent(self) -> Spent:
        return Spent(self.epsilon_steps, self.delta_steps)


class LoggedMessage(ValidatedModel):
    """One message, and its stamp without the salt."""

    message: str
    number: int
    time_ms: int
    before: Hex
    content: Hex
    seen: LoggedMark
    ledger: LoggedMark
    spent: LoggedSpent | None
    """None: of a time when stamps did not say."""
    signature: Hex

    @classmethod
    def of(cls, entry: Entry) -> Self:
        stamp = Stamp.from_bytes(entry.stamp)
        return cls(
            message=entry.message,
            number=stamp.number,
            time_ms=stamp.time_ms,
            before=stamp.before.hex(),
            content=entry.content.hex(),
            seen=LoggedMark.of(stamp.seen),
            ledger=LoggedMark.of(stamp.ledger),
            spent=None if stamp.spent is None else LoggedSpent.of(stamp.spent),
            signature=stamp.signature.hex(),
        )

    def stamp(self) -> Stamp:
        """Without the salt, which is not signed."""
        return Stamp(
            self.number,
            self.time_ms,
            bytes.fromhex(self.before),
            _NO_SALT,
            self.seen.mark(),
            self.ledger.mark(),
            None if self.spent is None else self.spent.spent(),
            bytes.fromhex(self.signature),
        )

    @property
    def head(self) -> bytes:
        """Of the chain after this message."""
        return self.stamp().head(bytes.fromhex(self.content))


class LoggedChain(ValidatedModel):
    """The messages to or from another party under one of its keys."""

    direction: Direction
    other: str
    key: Hex
    messages: tuple[LoggedMessage, ...]


class LoggedLedger(ValidatedModel):
    """All entries as they are kept, and the salt of its heads."""

    salt: Hex
    entries: tuple[str, ...]


class LoggedRun(ValidatedModel):
    """What was proposed to this party."""

    run_id: str
    commitment: Hex


class LogFile(ValidatedModel):
    """All that a party shows of its log."""

    format: Literal["pv4fad log"] = "pv4fad log"
    version: Literal[2] = 2
    party: str
    identity: Hex
    chains: tuple[LoggedChain, ...]
    ledger: LoggedLedger
    runs: tuple[LoggedRun, ...]
    live: tuple[LiveMark, ...] = ()

    @classmethod
    def of(cls, store: Store, identity: Identity, live: tuple[LiveMark, ...] = ()) -> LogFile:
        """The log of a party, from its store; `live`: the marks in its folder."""
        with store.transaction() as tx:
            log = Records.of_party(tx)
            chains = tuple(
                LoggedChain(
                    direction=chain.direction,
                    other=chain.other,
                    key=chain.key.hex(),
                    messages=tuple(map(LoggedMessage.of, chain.entries())),
                )
                for chain in Chain.all_of(log, store.party)
            )
            ledger = LoggedLedger(
                salt=ledger_salt(tx).hex(),
                entries=tuple(entry.decode() for entry in raw_entries(tx)),
            )
            runs = tuple(
                LoggedRun(run_id=run_id, commitment=proposal.parsed().commitment)
                for run_id in run_ids(store)
                if (proposal := Records(tx, run_id).find(Proposal)) is not None
            )
        return cls(
            party=store.party,
            identity=identity.public().to_bytes().hex(),
            chains=chains,
            ledger=ledger,
            runs=runs,
            live=live,
        )

    @classmethod
    def read(cls, path: Path) -> LogFile:
        """A file that somebody has handed over."""
        try:
            log = cls.model_validate_json(path.read_bytes())
            for chain in log.chains:
                bytes.fromhex(chain.key)
                for message in chain.messages:
                    message.stamp().to_bytes()
            if log.public.name != log.party:
                raise ProtocolError(f"the identity of {log.public.name} for {log.party}")
        except ValidationError as error:
            raise DataError(f"{path} is not a log of messages: {problems_text(error)}") from None
        except (ValueError, ProtocolError) as error:
            raise DataError(f"{path} is not a log of messages: {error}") from None
        return log

    @property
    def public(self) -> PublicIdentity:
        return PublicIdentity.from_bytes(bytes.fromhex(self.identity))

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

"""A party's log as a file, for others to read: ids, digests and signatures, and nothing secret.

Of a bank also its ledger: what it has spent, on which run, under which limit.  Of a proposal also
the commitment of the payment network.  Of live messages the marks.

The party signs all of it, so that whoever carries the file can change nothing in the party's name.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from pv4fad.audit.live_marks import LiveMark
from pv4fad.audit.log import Chain, Direction, Entry, ledger_salt
from pv4fad.audit.signed_file import is_signed, signature_of
from pv4fad.audit.stamp import N_ARRIVED, NO_COMMITMENT, SALT_BYTES, Mark, Stamp
from pv4fad.errors import DataError, ParameterError, ProtocolError
from pv4fad.privacy.ledger import Spent, raw_entries
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.parameters import Name
from pv4fad.store.records import Records
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel, problems_text

Hex = Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
# What is signed is a row of fields without a length: with other lengths it could be divided
# otherwise, and its sender would have signed something else.
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Commitment = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
# Printed, on the terminal of whoever reads the log of somebody else; names are, too.
_MessageId = Annotated[str, Field(pattern="^[A-Za-z0-9._:@+/-]{1,700}$")]
_Number = Annotated[int, Field(ge=0, lt=2**64)]
_NO_SALT = bytes(SALT_BYTES)
_EARLIER = re.compile(rb'\s*{\s*"format": *"pv4fad log",\s*"version": *[123]\b')
_PURPOSE = b"pv4fad log, version 4\x00"


class LoggedMark(ValidatedModel):
    """`Mark`."""

    number: _Number
    head: _Digest

    @classmethod
    def of(cls, mark: Mark) -> Self:
        return cls(number=mark.number, head=mark.head.hex())

    def mark(self) -> Mark:
        return Mark(self.number, bytes.fromhex(self.head))


class LoggedSpent(ValidatedModel):
    """`Spent`."""

    epsilon_steps: _Number
    delta_steps: _Number

    @classmethod
    def of(cls, spent: Spent) -> Self:
        return cls(epsilon_steps=spent.epsilon_steps, delta_steps=spent.delta_steps)

    def spent(self) -> Spent:
        return Spent(self.epsilon_steps, self.delta_steps)


class LoggedMessage(ValidatedModel):
    """One message, and its stamp without the salt."""

    message: _MessageId
    number: _Number
    time_ms: _Number
    before: _Digest
    content: _Digest
    seen: LoggedMark
    ledger: LoggedMark
    spent: LoggedSpent | None
    """None: of a time when stamps did not say."""
    arrived: int | None = Field(ge=0, lt=2**N_ARRIVED)
    """None: of a time when stamps did not say, and did not sign the id."""
    commitment: _Commitment
    """Of a proposal; of other messages empty."""
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
            arrived=stamp.arrived,
            commitment=stamp.commitment.hex() if any(stamp.commitment) else "",
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
            self.arrived,
            bytes.fromhex(self.commitment) or NO_COMMITMENT,
            bytes.fromhex(self.signature),
        )

    def is_signed_by(self, key: bytes, sender: str, receiver: str) -> bool:
        """Whether the owner of this signing key has sent such a message."""
        content = bytes.fromhex(self.content)
        return self.stamp().is_signed_by(key, sender, receiver, self.message, content)

    @property
    def names_itself(self) -> bool:
        """Whether its sender has signed the id, too."""
        return self.arrived is not None

    @property
    def committed(self) -> str:
        """The commitment that its sender has signed; empty: none."""
        return self.commitment if self.names_itself and self.commitment.strip("0") else ""

    @property
    def confirms(self) -> set[int]:
        """The numbers of the receiver's messages that the sender says it has."""
        # The head of the message it has seen last is over that message: it cannot be without it.
        bits = 1 if self.arrived is None else self.arrived | 1
        numbers = {self.seen.number - i for i in range(N_ARRIVED) if bits >> i & 1}
        return {number for number in numbers if number > 0}

    @property
    def head(self) -> bytes:
        """Of the chain after this message."""
        return self.stamp().head(self.message, bytes.fromhex(self.content))


class LoggedChain(ValidatedModel):
    """The messages to or from another party under one of its keys."""

    direction: Direction
    other: Name
    key: _Digest
    messages: tuple[LoggedMessage, ...]


class LoggedLedger(ValidatedModel):
    """All entries as they are kept, and the salt of its heads."""

    salt: Hex
    entries: tuple[str, ...]


class LogFile(ValidatedModel):
    """All that a party shows of its log, signed."""

    format: Literal["pv4fad log"] = "pv4fad log"
    version: Literal[4] = 4
    party: Name
    identity: Hex
    chains: tuple[LoggedChain, ...]
    ledger: LoggedLedger
    live: tuple[LiveMark, ...] = ()
    signature: Hex = ""

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
        return cls(
            party=store.party,
            identity=identity.public().to_bytes().hex(),
            chains=chains,
            ledger=ledger,
            live=live,
        ).signed_by(identity)

    def signed_by(self, identity: Identity) -> LogFile:
        """What it says now, with the signature of its owner."""
        signature = signature_of(self, _PURPOSE, identity.signing_secret)
        return self.model_copy(update={"signature": signature})

    @property
    def is_whole(self) -> bool:
        """Whether the owner of its identity has signed all of it."""
        return is_signed(self, self.signature, _PURPOSE, self.public.signing_key)

    @classmethod
    def read(cls, path: Path) -> LogFile:
        """A file that somebody has handed over; refused if it is not what its owner has signed."""
        try:
            text = path.read_bytes()
            if _EARLIER.match(text):
                raise DataError(
                    f"{path} is a log of an earlier version, in which not all was signed: export it"
                    " again, pv4fad audit export"
                )
            log = cls.model_validate_json(text)
            for chain in log.chains:
                bytes.fromhex(chain.key)
                for message in chain.messages:
                    message.stamp().to_bytes()
            if log.public.name != log.party:
                raise ProtocolError(f"the identity of {log.public.name} for {log.party}")
            if not log.is_whole:
                raise DataError(
                    f"{path} has been changed since it was exported: its signature does not hold."
                    " That says nothing about the party: have it export its log again"
                )
        except ValidationError as error:
            raise DataError(f"{path} is not a log of messages: {problems_text(error)}") from None
        except (ValueError, struct.error, ProtocolError, ParameterError) as error:
            raise DataError(f"{path} is not a log of messages: {error}") from None
        return log

    def commitments(self, sender: str, key: bytes, run_id: str) -> set[str]:
        """What `sender` has committed to in its proposals of a run to this party, signed."""
        return {
            message.committed
            for chain in self.chains
            if (chain.direction, chain.other) == ("received", sender)
            for message in chain.messages
            if message.committed
            and message.message.split("/")[0] == run_id
            and message.is_signed_by(key, sender, self.party)
        }

    @property
    def public(self) -> PublicIdentity:
        return PublicIdentity.from_bytes(bytes.fromhex(self.identity))

    @property
    def signing_key(self) -> str:
        """Of its owner, as chains and marks have it."""
        return self.public.signing_key.hex()

    def keys_of_others(self) -> dict[str, set[str]]:
        """Under which keys it has messages and live marks of other parties."""
        found: dict[str, set[str]] = {}
        for chain in self.chains:
            found.setdefault(chain.other, set()).add(chain.key)
        for mark in self.live:
            if mark.receiver == self.party and mark.is_signed:
                found.setdefault(mark.sender, set()).add(mark.key)
        return found

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

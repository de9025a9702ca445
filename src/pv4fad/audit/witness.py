"""What one party holds of another's messages, signed: for a party whose store was restored.

    pv4fad audit witness FOLDER --of bank01 --code CODE

The messages are under the signature of the party that sent them; that none is left out, the witness
signs.  The code is drawn when a store is restored, so a file that was made before does not pass.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError

from pv4fad.audit.log import Chain
from pv4fad.audit.log_file import Hex, LoggedMessage
from pv4fad.audit.signed_file import is_signed, signature_of
from pv4fad.errors import DataError, ParameterError, WireError
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.parameters import Name
from pv4fad.store.records import Records
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel, problems_text

_PURPOSE = b"pv4fad witness, version 1\x00"


class Witness(ValidatedModel):
    """The messages from a party and to it, as the witness has them."""

    format: Literal["pv4fad witness"] = "pv4fad witness"
    version: Literal[2] = 2
    witness: Name
    party: Name
    key: Hex
    """The party's signing key, as the witness knows it."""
    code: str
    received: tuple[LoggedMessage, ...]
    """From the party."""
    sent: tuple[LoggedMessage, ...]
    """To it."""
    signature: Hex = ""

    @classmethod
    def of(cls, store: Store, identity: Identity, party: str, key: bytes, code: str) -> Self:
        """By the owner of a store."""
        with store.transaction() as tx:
            log = Records.of_party(tx)
            received, sent = (
                tuple(map(LoggedMessage.of, Chain(log, way, identity.name, party, key).entries()))
                for way in ("received", "sent")
            )
        return cls(
            witness=identity.name,
            party=party,
            key=key.hex(),
            code=code,
            received=received,
            sent=sent,
        ).signed_by(identity)

    def signed_by(self, identity: Identity) -> Self:
        """What it says now, with the signature of the witness."""
        signature = signature_of(self, _PURPOSE, identity.signing_secret)
        return self.model_copy(update={"signature": signature})

    @classmethod
    def read(cls, path: Path) -> Self:
        """A file that somebody has sent; not checked yet."""
        try:
            found = cls.model_validate_json(path.read_bytes())
            for message in (*found.received, *found.sent):
                message.stamp().to_bytes()
            bytes.fromhex(found.signature)
        except ValidationError as error:
            raise DataError(
                f"{path} is not the file of a witness: {problems_text(error)}"
            ) from None
        except (ValueError, struct.error, ParameterError, WireError) as error:
            raise DataError(f"{path} is not the file of a witness: {error}") from None
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        return found

    def is_signed_by(self, key: bytes) -> bool:
        """Whether the owner of this signing key says all of it."""
        return is_signed(self, self.signature, _PURPOSE, key)

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

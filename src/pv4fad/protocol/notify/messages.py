"""The message of the phase."""

from __future__ import annotations

import json

from pv4fad.errors import ParameterError, WireError
from pv4fad.protocol.wire import Address, Message, wire_message

BODY_BYTES = 1024
LEVELS = (1, 2, 3)


@wire_message("notify", max_bytes=4 * 2**10)
class Notify(Message):
    """PaymentNetwork → Bank: an alert about an account of this bank, disclosed on purpose.

    The index of the address is the number of the notice.  All notices have the same size.
    """

    body: bytes

    def check(self) -> None:
        if len(self.body) != BODY_BYTES:
            raise WireError(f"a notice of {len(self.body)} bytes: it has {BODY_BYTES}")
        self.content()

    def content(self) -> tuple[str, str, int]:
        """Payment reference, account, level."""
        try:
            reference, account, level = json.loads(self.body.rstrip(b" "))
        except (ValueError, TypeError):
            raise WireError("a notice that cannot be read") from None
        if type(reference) is not str or type(account) is not str or level not in LEVELS:
            raise WireError("a notice without payment, account or level")
        if type(level) is not int:
            raise WireError("a notice without a level")
        return reference, account, level


def notice(address: Address, reference: str, account: str, level: int) -> Notify:
    """The same bytes whenever it is made again."""
    return Notify(address, _body(reference, account, level))


def require_fits(reference: str, account: str, level: int) -> None:
    """`ParameterError` if no notice can hold that."""
    _body(reference, account, level)


def _body(reference: str, account: str, level: int) -> bytes:
    text = json.dumps([reference, account, level], separators=(",", ":")).encode()
    if len(text) > BODY_BYTES:
        raise ParameterError("payment reference and account are too long for a notice")
    return text.ljust(BODY_BYTES)

"""The messages of ask live: they travel in live sessions (`deployment.hub.live`), and are not kept.

The index of an address is the tick, its epoch the match whose keys are meant.  All queries have the
same size but for the digits of the tick, and so have all replies.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import WireError
from pv4fad.protocol.live.plan import TRACKS
from pv4fad.protocol.wire import Message, wire_message

CLOCK_BYTES = 16
_KIB = 2**10

Reason = Literal["no such model", "other keys", "another query", "tick over", "budget spent"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a bank does not answer a query.

    no such model    it knows no such run, or the run has no model
    other keys       the keys in use are those of another match
    another query    it has answered another query for this tick
    tick over        it has answered a later one
    budget spent     it has answered as many ticks today as it allows; or those of the day are not
                     yet in its account of δ, or do not fit there
"""


@wire_message("live-query", max_bytes=256 * _KIB)
class LiveQuery(Message):
    """PaymentNetwork → Bank: Z of one tick; uniform when opened."""

    clock: bytes
    """Drawn when the payment network begins to count ticks."""
    ciphertext: bytes

    def check(self) -> None:
        if len(self.clock) != CLOCK_BYTES:
            raise WireError(f"a clock of {len(self.clock)} bytes: it has {CLOCK_BYTES}")


@wire_message("live-reply", max_bytes=4 * _KIB)
class LiveReply(Message):
    """Bank → PaymentNetwork: R of each track; S finds the bits of its questions in them."""

    residues: NDArray[np.uint32]

    def check(self) -> None:
        if self.residues.shape != (TRACKS,):
            raise WireError(f"sums of shape {self.residues.shape}: there are {TRACKS} tracks")


@wire_message("live-refusal", max_bytes=4 * _KIB)
class LiveRefusal(Message):
    """Bank → PaymentNetwork: no answer to this query, and why; nothing of what it opened."""

    reason: str

    def check(self) -> None:
        if self.reason not in REASONS:
            raise WireError("a refusal for a reason that does not exist")

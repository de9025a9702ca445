"""How a party refuses a message: out of order, or not what the parameters of the run say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, ProtocolError
from pv4fad.protocol.wire import Message, message_id


def expect(condition: bool, message: Message, what: str) -> None:
    """Refuse a message whose content does not fit the run's parameters."""
    if not condition:
        raise ProtocolError(f"{message_id(message)}: {what}")


def expect_residues(
    message: Message, values: NDArray[np.unsignedinteger], n: int, modulus: int
) -> None:
    """Refuse anything but n residues modulo t."""
    expect(values.shape == (n,), message, f"{values.shape} values where {n} are expected")
    expect(bool((values < modulus).all()), message, "a value outside 0..t−1")


def out_of_order(message: Message, stage: Any) -> OrderError:
    """A message that does not fit the stage."""
    if stage is None:
        return OrderError(f"{message_id(message)}: no such run has been proposed here")
    return OrderError(f"{message_id(message)} does not fit the stage {type(stage).__name__}")

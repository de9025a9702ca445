"""Frames as Flower carries them: an ArrayRecord with one array of bytes per frame."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Array, ArrayRecord, RecordDict

from pv4fad.errors import WireError

_NAME = "exchange"


def to_record(frames: Sequence[bytes]) -> RecordDict:
    """Flower sends arrays in pieces of a few megabytes; other records would need twice the room."""
    arrays = {
        f"{number:06d}": Array(dtype="uint8", shape=(len(frame),), stype="bytes", data=frame)
        for number, frame in enumerate(frames)
    }
    return RecordDict({_NAME: ArrayRecord(arrays)})


def from_record(content: RecordDict) -> list[bytes]:
    """The frames in order."""
    record = content.array_records.get(_NAME)
    if record is None:
        raise WireError("a message that carries no exchange of PV4FAD")
    return [record[name].data for name in sorted(record)]

"""The ClientApp: carries a request to the station of its node, and the reply back.

Which party a node belongs to is in the node's configuration (`station`: where its station is).
The app sees frames and opens none; it holds no key, no data and no state.  Flower starts a process
for every message, so this module imports little.

Frames travel in an ArrayRecord with one array of bytes per frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pv4fad.deployment.station_socket import call
from pv4fad.errors import WireError

_NAME = "exchange"

app = ClientApp()


@app.query()
def carry(message: Message, context: Context) -> Message:
    """One exchange between the relay and the station."""
    station = Path(str(context.node_config["station"]))
    frames = call(station, from_record(message.content))
    return Message(to_record(frames), reply_to=message)


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

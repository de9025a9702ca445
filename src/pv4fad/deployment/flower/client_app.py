"""The ClientApp: carries a request to the station of its node, and the reply back.

Which party a node belongs to is in the node's configuration (`station`: where its station is).
The app sees bytes and opens none; it holds no key, no data and no state.  Flower starts a process
for every message, so this module imports little.

Bytes travel in an ArrayRecord with one array.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pv4fad.deployment.flower.station_socket import call
from pv4fad.errors import WireError

_NAME = "exchange"

app = ClientApp()


@app.query()
def carry(message: Message, context: Context) -> Message:
    """One exchange between the relay and the station."""
    station = Path(str(context.node_config["station"]))
    return Message(to_record(call(station, from_record(message.content))), reply_to=message)


def to_record(data: bytes) -> RecordDict:
    """Flower sends arrays in pieces of a few megabytes; other records would need twice the room."""
    array = Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)
    return RecordDict({_NAME: ArrayRecord({_NAME: array})})


def from_record(content: RecordDict) -> bytes:
    """What `to_record` has put there."""
    record = content.array_records.get(_NAME)
    if record is None or _NAME not in record:
        raise WireError("a message that carries no exchange of PV4FAD")
    return record[_NAME].data

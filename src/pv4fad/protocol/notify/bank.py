"""The bank's part: keep a notice for the bank's people."""

from __future__ import annotations

from datetime import UTC, datetime

from pv4fad.protocol.notify.messages import Notify
from pv4fad.protocol.notify.state import ReceivedNotice
from pv4fad.protocol.receipt import Receipt, receipt_of
from pv4fad.store.records import Records
from pv4fad.store.store import Store


def keep_notice(message: Notify, records: Records) -> Receipt:
    """Step 3."""
    reference, account, level = message.content()
    received = datetime.now(UTC).isoformat(timespec="milliseconds")
    kept = ReceivedNotice(reference, account, level, received)
    records.put(kept, message.address.run_id, f"{message.address.index:012d}")
    return receipt_of(message)


def notices(store: Store) -> list[ReceivedNotice]:
    """All that the bank has received, the latest first."""
    with store.transaction() as tx:
        records = Records.of_party(tx)
        found = [records.get(ReceivedNotice, *place) for place in records.places(ReceivedNotice)]
    return sorted(found, key=lambda one: one.received, reverse=True)

"""Accounts that live payments have met and that no bank has matched: they wait for the next match.

The live service notes them in the payment network's store, in parts as they come; the job `match`
adds all of them to the tables, and forgets the parts that it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pv4fad.lead.federation import LedFederation
from pv4fad.lead.refresh import Matching
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.tables import AccountKey, account_key, hashed_id
from pv4fad.run.meter import Meter
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store


@dataclass(frozen=True)
class NewAccounts(Record):
    """Some of them, as they are hashed, one per line; one record for each part."""

    ids: bytes = field(repr=False)


def note_new_accounts(store: Store, run_id: str, keys: Iterable[AccountKey]) -> None:
    """One part more; their banks are known."""
    with store.transaction() as tx:
        records = Records(tx, run_id)
        number = 1 + max((int(one) for (one,) in records.places(NewAccounts)), default=0)
        records.put(NewAccounts(b"\n".join(map(hashed_id, keys))), number)


def new_accounts(store: Store, run_id: str) -> dict[int, list[AccountKey]]:
    """The accounts of each part."""
    with store.transaction() as tx:
        records = Records(tx, run_id)
        parts = {
            int(number): records.get(NewAccounts, int(number)).ids.split(b"\n")
            for (number,) in records.places(NewAccounts)
        }
    return {
        number: [account_key(one, broadcast=False) for one in ids] for number, ids in parts.items()
    }


def match_new_accounts(
    federation: LedFederation, parameters: RunParameters, directory: Mapping[str, str], meter: Meter
) -> None:
    """All that wait; also if there are none, so that nobody can tell whether there were any.

    It can be interrupted at any moment and asked for again.
    """
    store, run_id = federation.payment_network.store, parameters.run_id
    matching = Matching(federation, parameters, directory, meter)
    matching.require_same_accounts()
    matching.carry_on()
    parts = new_accounts(store, run_id)
    matching.match_new([key for keys in parts.values() for key in keys])
    with store.transaction() as tx:
        records = Records(tx, run_id)
        for number in parts:
            records.delete_at(NewAccounts, number)
    meter.stop()

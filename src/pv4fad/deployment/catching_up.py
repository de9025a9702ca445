"""A party that was restored takes in what the others hold (`pv4fad.audit.catch_up`), and then knows
what it must not do again.

    all               log, ledger and account of δ; nothing of before is sent again
    bank              if it has answered rounds of questions since: none more today; δ of live
                      queries, which are in no log, as if it had been asked every day
    payment network   the job under way is abandoned, numbers of matches and batches that were used
                      are over, and with its present tables it asks nothing; what a hub
                      goes on with is not begun once more
    aggregator        banks of which it has passed on metered answers since: none more today;
                      banks whose answers it has stopped: still stopped, until a person acts

A party that has lost nothing goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from pv4fad.audit.catch_up import CaughtUp, catch_up
from pv4fad.audit.log_file import LoggedMessage
from pv4fad.audit.notary import known_keys
from pv4fad.audit.witness import Witness
from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.job_notes import JobsForgotten, RefreshFirst, abandon, read_notes
from pv4fad.deployment.party_folder import PartySettings, read_identity
from pv4fad.lead.refresh import drop_work_under_way
from pv4fad.parties.network_epochs import LastEpoch, last_epoch
from pv4fad.parties.network_stages import is_trained
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.privacy.days import counted_day
from pv4fad.privacy.ledger import read_ledger, spent_in_all
from pv4fad.protocol.live.booking import book_forgotten
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK
from pv4fad.protocol.score.messages import MeteredReply, MeteringStopped, ScoreReply
from pv4fad.protocol.score.metering import STOPPED_NEXT, Metered
from pv4fad.protocol.score.state import LayersAnswered
from pv4fad.protocol.wire import kind_in_id
from pv4fad.store.records import Records, run_ids
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

_ALL_OF_A_DAY = 2**62


def witnesses_needed(settings: PartySettings, cards: Mapping[str, PartyCard]) -> list[str]:
    """Every party that this one exchanges messages with; banks send each other none."""
    return [
        card.name
        for card in cards.values()
        if card.name != settings.name and not (settings.role == card.role == BANK)
    ]


def take_in(
    settings: PartySettings,
    cards: Mapping[str, PartyCard],
    store: Store,
    witnesses: Sequence[Witness],
) -> CaughtUp:
    """Once; then the party can go on.  Nothing is changed if something does not fit."""
    identity, now = read_identity(store), datetime.now(UTC)
    needed = witnesses_needed(settings, cards)
    keys = known_keys(card.public for card in cards.values())
    if settings.role == PAYMENT_NETWORK:
        _give_up_if_lost(
            store, lambda tx: catch_up(tx, identity, keys, witnesses, needed=needed, now=now)
        )
    with store.transaction() as tx:
        charged = read_ledger(tx).delta.latest
        found = catch_up(tx, identity, keys, witnesses, needed=needed, now=now)
        if found.lost:
            _note_lost(tx, settings, found, now.date().isoformat())
        # Nobody can be asked live before a first match, which is charged.
        if settings.role == BANK and (since := charged or _first_day(found.lost)):
            book_forgotten(tx, since, settings.live_ticks_per_day, now)
            found = replace(found, after=spent_in_all(tx))
    return found


def _first_day(messages: Sequence[LoggedMessage]) -> str:
    """Of these; nothing if there are none."""
    times = (datetime.fromtimestamp(one.time_ms / 1000, UTC) for one in messages)
    return min((time.date().isoformat() for time in times), default="")


class _TrialError(Exception):
    """Undoes a transaction."""


def _give_up_if_lost(store: Store, caught_up: Callable[[Transaction], CaughtUp]) -> None:
    """The payment network's work under way; that takes transactions of its own."""
    is_lost = False
    with suppress(_TrialError), store.transaction() as tx:
        is_lost = bool(caught_up(tx).lost)
        raise _TrialError
    if not is_lost:
        return
    if read_notes(store).doing:
        abandon(store)
    network = PaymentNetwork(store, WorkerPool(0))
    for run_id in run_ids(store):
        if is_trained(store, run_id):
            drop_work_under_way(network, run_id)


def _note_lost(tx: Transaction, settings: PartySettings, found: CaughtUp, today: str) -> None:
    if settings.role == BANK:
        if {ScoreReply.kind, MeteredReply.kind} & _kinds(found.lost):
            for kind in ("routed", "broadcast"):
                noted = _party(tx).find(LayersAnswered, kind)
                day = counted_day(today, noted.day if noted else "")
                _party(tx).put(LayersAnswered(day, _ALL_OF_A_DAY), kind)
    elif settings.role == AGGREGATOR:
        replies = [one for one in found.received if _part(one, 3) == MeteredReply.kind]
        for bank in {_part(one, 5) for one in replies} - {""}:
            kept = _party(tx).find(Metered, bank) or Metered()
            day = counted_day(today, kept.day)
            _party(tx).put(replace(kept, day=day, positives=_ALL_OF_A_DAY), bank)
        stops = [one for one in found.lost if _part(one, 3) == MeteringStopped.kind]
        for bank in {_part(one, 1).partition("@")[0] for one in stops}:
            kept = _party(tx).find(Metered, bank) or Metered()
            _party(tx).put(replace(kept, stopped_at=STOPPED_NEXT), bank)
    else:
        known = {name.split("/")[1] for name in tx.keys("run/")}
        for run_id in known:
            run, used = (
                Records(tx, run_id),
                [int(_part(m, 2)) for m in found.lost if _part(m, 0) == run_id],
            )
            run.put(LastEpoch(max([last_epoch(run), *used])))
        _party(tx).put(RefreshFirst(tuple(sorted(known))))
        _party(tx).put(JobsForgotten())


def _party(tx: Transaction) -> Records:
    return Records.of_party(tx)


def _kinds(messages: Sequence[LoggedMessage]) -> set[str]:
    return {kind_in_id(one.message) for one in messages}


def _part(message: LoggedMessage, number: int) -> str:
    """Of an id: run, table, epoch, kind, index, sender, receiver; nothing of one that is none,
    which another party may have signed."""
    parts = message.message.split("/")
    return parts[number] if number < len(parts) else ""

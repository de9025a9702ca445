"""Compare the logs of several parties: what does not fit, and by whose doing.

A signature cannot be denied: what a party signed and others hold has to be in its own log, once.
What a party says it has seen has to be in its log as well.  So a message that was changed, left
out, moved or replaced, and a store that was put back, show in the logs of the others.

A party is named for what it has signed, or for its own log, and for nothing that only stands in the
log of another.  Parties whose logs are not given are judged by what the others hold, under the key
that those have of it.  Who lies together with everybody whom it exchanged messages with is not
found.

Anybody can sign a log with a new key in a party's name.  So where the log of another party has
another key of it, both are named, nothing is held against either, and only the cards can tell
(`verify_keys`).  A party under one of its keys is a party of its own here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from pv4fad.audit.ledgers import verify_ledgers
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.verify_chain import Fault, TwoEnds, both_ends
from pv4fad.audit.verify_keys import fingerprints, key_disputes, keys_in, several_keys
from pv4fad.audit.verify_live import verify_live
from pv4fad.errors import DataError
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import kind_in_id


@dataclass(frozen=True)
class Audit:
    """What the comparison of logs has shown."""

    parties: tuple[str, ...]
    n_messages: int
    """Different ones, in all logs together."""
    n_confirmed: int
    """Of these the receiver has said, under its own signature, that it has them."""
    n_live: int
    """Live messages that marks cover."""
    n_live_missing: int
    """Of these did not arrive: late ones are dropped."""
    faults: tuple[Fault, ...]
    notes: tuple[Fault, ...] = ()
    """What nobody can check any more: no fault."""


def verify_logs(logs: Sequence[LogFile], runs: Sequence[RunParameters] = ()) -> Audit:
    """Of each party one log; `runs`: as their run.json have them."""
    names = [log.party for log in logs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"two logs of {twice[0]} were given")
    disputes = key_disputes(logs)
    doubtful = {name for name, at in keys_in(logs).items() if len(set.union(*at.values())) > 1}
    faults = [Fault(*found) for found in (*(one.fault() for one in disputes), *several_keys(logs))]
    apart = {frozenset((one.holder, one.party)) for one in disputes if not one.is_known}
    aside = {one.party for one in disputes if one.is_alone}
    logs = [log for log in logs if log.party not in aside]
    chains = [one for one in both_ends(logs) if frozenset((one.sender, one.receiver)) not in apart]
    faults += _commitments_differ(chains, doubtful)
    n_messages = n_confirmed = 0
    for chain in chains:
        faults += chain.faults(doubtful)
        n_messages += len(chain.numbers)
        n_confirmed += len(chain.numbers & chain.confirmed)
    own = {
        log.party: [one for one in chains if (one.sender, one.key) == (log.party, log.signing_key)]
        for log in logs
    }
    ledgers = verify_ledgers(
        logs,
        {name: [(one.receiver, m) for one in of for m in one.signed()] for name, of in own.items()},
        {name: [(one.receiver, m) for one in of for m in one.held()] for name, of in own.items()},
        runs,
    )
    live = verify_live(logs, apart)
    faults += [Fault(*found) for found in (*ledgers.faults, *live.faults)]
    return Audit(
        *(tuple(names), n_messages, n_confirmed, live.n_messages, live.n_missing),
        tuple(dict.fromkeys(faults)),
        tuple(Fault(*found) for found in ledgers.notes),
    )


def _commitments_differ(chains: Sequence[TwoEnds], doubtful: Set[str]) -> Iterator[Fault]:
    """The payment network commits to the same for everybody, or to nothing."""
    chains = [chain for chain in chains if chain.sender == PAYMENT_NETWORK]
    given = {chain.key for chain in chains if chain.sent is not None}
    shown: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for chain in chains:
        for message in chain.signed():
            if message.names_itself and kind_in_id(message.message) == RunProposal.kind:
                run_id, _, epoch, *_ = message.message.split("/")
                of_run = shown.setdefault((run_id, epoch, chain.key), {})
                of_run.setdefault(message.committed, set()).add(chain.receiver)
    for (run_id, _, key), receivers in shown.items():
        if len(receivers) > 1:
            who = sorted(set.union(*receivers.values()))
            what = f"run {run_id}: it has shown different commitments to {', '.join(who)}"
            if key not in given:
                what = f"{what} (by its key {fingerprints([key])} in these logs)"
            own_word = PAYMENT_NETWORK in doubtful and key not in given
            yield Fault(" and ".join([*(who if own_word else ()), PAYMENT_NETWORK]), what)

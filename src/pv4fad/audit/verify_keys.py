"""Compare the keys that the logs of several parties have of each other.

Anybody can make a key and sign with it in a party's name.  So where a party has several keys, all
whose logs have them are named, and only the party's card can tell which is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pv4fad.audit.log_file import LogFile
from pv4fad.protocol.identity import fingerprint_of


@dataclass(frozen=True)
class KeyDispute:
    """A party's own log has another key of it than the log of another party."""

    holder: str
    """The other party."""
    party: str
    keys: tuple[str, ...]
    """Of the party, in the holder's log."""
    own: str
    """In its own log."""
    is_known: bool
    """The holder's log has messages under the party's own key, too."""
    is_alone: bool
    """No other log has the party's own key: anybody could have made its log."""

    def fault(self) -> tuple[str, str]:
        """Who is named, and what does not fit."""
        theirs, own = fingerprints(self.keys), fingerprints([self.own])
        what = (
            f"their logs have different keys of {self.party}, {theirs} in that of {self.holder} and"
            f" {own} in that of {self.party}: one of the two logs is false, or {self.party} had"
            f" another key before. Compare with the card of {self.party}"
        )
        if not self.is_known:
            what += "; what they have of each other was not compared"
        if self.is_alone:
            what += f", nor the log of {self.party} with any other"
        return f"{self.holder} and {self.party}", what


def key_disputes(logs: Sequence[LogFile]) -> list[KeyDispute]:
    """Of the parties whose logs are given."""
    own = {log.party: log.signing_key for log in logs}
    held = {log.party: log.keys_of_others() for log in logs}
    return [
        KeyDispute(
            holder,
            party,
            tuple(sorted(keys - {own[party]})),
            own[party],
            is_known=own[party] in keys,
            is_alone=not any(
                own[party] in others.get(party, ())
                for name, others in held.items()
                if name != party
            ),
        )
        for holder, of_others in held.items()
        for party, keys in of_others.items()
        if party in own and keys - {own[party]}
    ]


def several_keys(logs: Sequence[LogFile]) -> Iterator[tuple[str, str]]:
    """Of the parties whose logs are not given: who is named, and what does not fit."""
    given, held = {log.party for log in logs}, keys_in(logs)
    for party, holders in held.items():
        if party in given or len(set.union(*holders.values())) < 2:
            continue
        shown = ", ".join(f"{fingerprints(keys)} in that of {at}" for at, keys in holders.items())
        yield (
            " and ".join(holders),
            f"there are several keys of {party}, whose own log is not given: {shown}. A log is"
            f" false, or {party} had another key before, or shows different ones. Compare with the"
            f" card of {party}",
        )


def keys_in(logs: Sequence[LogFile]) -> dict[str, dict[str, set[str]]]:
    """Of each party: in whose logs which keys of it are, its own log's among them."""
    found: dict[str, dict[str, set[str]]] = {}
    for log in logs:
        for party, keys in {**log.keys_of_others(), log.party: {log.signing_key}}.items():
            found.setdefault(party, {})[log.party] = keys
    return found


def fingerprints(keys: Sequence[str] | set[str]) -> str:
    """Of keys as logs have them, as much of each as people compare."""
    return ", ".join(sorted(fingerprint_of(bytes.fromhex(key))[:16] for key in keys))

"""How the key of a store is locked: by which root key, since when.

Nothing of it is secret: it can be read without the root key (`pv4fad keys status`).  All of it is
bound to the locked key and to the store, so that what was changed, or is of another store, does not
unlock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from pv4fad.errors import StoreError
from pv4fad.store.sealing import DAMAGED_LOCK, About, Label, RootKey

Labels = Callable[..., Label]


@dataclass(frozen=True)
class KeyLock:
    """The key of a store under a root key."""

    kind: str
    """Of root key."""
    about_json: str
    """As the root key describes itself."""
    since: str
    """When it was locked, UTC; empty: by a program of store format 5, which did not note it."""
    locked_key: bytes

    @classmethod
    def made(cls, root_key: RootKey, key: bytes, labels: Labels) -> Self:
        """A new lock, which the root key has been seen to open."""
        about = root_key.about()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        lock = cls(root_key.kind, json.dumps(about), since, b"")
        lock = replace(lock, locked_key=root_key.lock(key, about, lock._label(labels)))
        if lock.unlock(root_key, labels) != key:
            raise StoreError(f"this {root_key.kind} does not unlock what it has locked")
        return lock

    @property
    def about(self) -> About:
        """What the root key has said of itself."""
        try:
            about = json.loads(self.about_json)
        except ValueError:
            raise StoreError(DAMAGED_LOCK) from None
        if not isinstance(about, dict) or {type(one) for one in about.values()} - {str, int}:
            raise StoreError(DAMAGED_LOCK)
        return about

    def shown(self) -> dict[str, str]:
        """What tells the root key from others, for people."""
        names = ("token", "serial", "key", "fingerprint")
        return {name: str(self.about[name]) for name in names if name in self.about}

    def unlock(self, root_key: RootKey, labels: Labels) -> bytes:
        """The key of the store; `StoreError` says why not."""
        if root_key.kind != self.kind:
            raise StoreError(f"it is locked with a {self.kind}, not with a {root_key.kind}")
        return root_key.unlock(self.locked_key, self.about, self._label(labels))

    def is_opened_by(self, root_key: RootKey, labels: Labels) -> bool:
        """Whether this root key made the lock."""
        try:
            self.unlock(root_key, labels)
        except StoreError:
            return False
        return True

    def _label(self, labels: Labels) -> Label:
        if not self.since:
            return labels("key")
        return labels("key", self.kind, self.about_json, self.since)

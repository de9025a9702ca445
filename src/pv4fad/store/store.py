"""A party's state between messages: named records, changed all at once or not at all.

After a message is handled, one transaction writes the new state, the spent budget and the replies:

    with store.transaction() as tx:
        tx.put("state", ...)
        tx.record_reply(message_id, digest, replies)

If the process dies before the end of the block, nothing of it happened, and the message will come
again; if it dies later, the repeated message gets the stored replies, the same bytes, never fresh
randomness.  Reads inside the block see what the block has written.

Names of records are not secret (they are stored in the clear); values are.  Names that start with
`permanent/` are written once and never changed or deleted.  One thread at a time.

`MemoryStore` forgets everything at the end of the process: for library use and tests.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from pv4fad.errors import OrderError, StoreError

PERMANENT_PREFIX = "permanent/"
REPLY_PREFIX = "reply/"
_REPLY_COUNTER = REPLY_PREFIX + "|recorded"
_NAME = re.compile(r"[ -~]{1,1024}")  # printable ASCII


class Transaction:
    """The writing side of a store, while its block lasts."""

    def __init__(self, store: Store) -> None:
        self._store: Store | None = store

    def get(self, key: str) -> bytes | None:
        """The value, as this transaction has left it."""
        return self._open_store().get(key)

    def keys(self, prefix: str = "") -> list[str]:
        """The names that start with `prefix`, sorted."""
        return self._open_store().keys(prefix)

    def put(self, key: str, value: bytes) -> None:
        """Set a record; a permanent one only once."""
        _check_own_name(key)
        if key.startswith(PERMANENT_PREFIX) and self.keys(key)[:1] == [key]:
            raise StoreError(f"record {key} is permanent and already written")
        self._open_store()._write(key, value)

    def delete(self, key: str) -> None:
        """Remove a record if it is there; never a permanent one."""
        _check_own_name(key)
        if key.startswith(PERMANENT_PREFIX):
            raise StoreError(f"record {key} is permanent and cannot be deleted")
        self._open_store()._erase(key)

    def record_reply(
        self, message_id: str, request_digest: bytes, replies: Sequence[bytes]
    ) -> None:
        """Keep the answer to a message, for when it comes again."""
        store = self._open_store()
        head = _reply_head(message_id)
        if store.get(head) is not None:
            raise OrderError(f"message {message_id} already has a reply")
        number = int(store.get(_REPLY_COUNTER) or 0)
        store._write(_REPLY_COUNTER, str(number + 1).encode())
        entry = {"number": number, "request": request_digest.hex(), "replies": len(replies)}
        store._write(head, json.dumps(entry).encode())
        for index, reply in enumerate(replies):
            store._write(_reply_part(message_id, index), reply)

    def acknowledge(self, message_id: str) -> None:
        """The replies have arrived: drop their bytes, remember that the message was handled."""
        store = self._open_store()
        head = store.get(_reply_head(message_id))
        if head is None:
            raise OrderError(f"message {message_id} has no reply to acknowledge")
        entry = json.loads(head)
        for key in store.keys(_reply_part(message_id)):
            store._erase(key)
        store._write(_reply_head(message_id), json.dumps(entry | {"replies": None}).encode())

    def acknowledge_all(self) -> None:
        """Nothing that was to be sent is sent again."""
        for message_id in self._open_store()._waiting():
            self.acknowledge(message_id)

    def prune(self, prefix: str, which: Callable[[str], bool] = lambda _: True) -> None:
        """Forget the messages whose id starts with `prefix`, "run-1/" for those of a run; of these
        only the ids for which `which` holds."""
        store = self._open_store()
        for key in store.keys(REPLY_PREFIX + prefix):
            if which(key.removeprefix(REPLY_PREFIX).partition("|")[0]):
                store._erase(key)

    def _open_store(self) -> Store:
        if self._store is None:
            raise StoreError("this transaction has ended")
        return self._store

    def _end(self) -> None:
        self._store = None


class Store(ABC):
    """Named records of one party."""

    party: str

    def __init__(self, party: str) -> None:
        self.party = party
        self._transaction: Transaction | None = None

    def get(self, key: str) -> bytes | None:
        """The value of a record, or None if there is none."""
        _check_name(key)
        return self._read(key)

    def keys(self, prefix: str = "") -> list[str]:
        """The names that start with `prefix`, sorted."""
        if prefix:
            _check_name(prefix)
        return self._names(prefix)

    def reply_to(self, message_id: str, request_digest: bytes) -> list[bytes] | None:
        """The stored replies to a message that came before; None if it is new.

        The same id with other content raises `OrderError`.  To a message whose replies have been
        acknowledged there is nothing more to say: none.
        """
        head = self.get(_reply_head(message_id))
        if head is None:
            return None
        entry = json.loads(head)
        if entry["request"] != request_digest.hex():
            raise OrderError(f"message {message_id} came before with other content")
        return self._replies(message_id, entry["replies"] or 0)

    def unacknowledged(self) -> list[bytes]:
        """What to send again after a crash: all replies that have not been acknowledged, in the
        order in which they were recorded."""
        waiting = self._waiting()
        return [reply for name, n in waiting.items() for reply in self._replies(name, n)]

    def copy_to(self, target: Store, leave_out: Callable[[str], bool]) -> None:
        """Into an empty store: all records, and the journal of replies, but for some names."""
        with target.transaction():
            for key in self.keys():
                value = None if leave_out(key) else self._read(key)
                if value is not None:
                    target._write(key, value)

    def _waiting(self) -> dict[str, int]:
        """The messages whose replies were not acknowledged, in order, and how many these are."""
        waiting = []
        for key in self.keys(REPLY_PREFIX):
            if "|" not in key:
                entry = json.loads(self.get(key) or b"")
                if entry["replies"] is not None:
                    message_id = key.removeprefix(REPLY_PREFIX)
                    waiting.append((entry["number"], message_id, entry["replies"]))
        return {name: n for _, name, n in sorted(waiting)}

    def _replies(self, message_id: str, n_replies: int) -> list[bytes]:
        replies = [self.get(_reply_part(message_id, index)) for index in range(n_replies)]
        if None in replies:
            raise StoreError(f"store of {self.party}: a reply to {message_id} is missing")
        return [reply for reply in replies if reply is not None]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of the block's changes, durable when it ends; none of them if it raises."""
        if self._transaction is not None:
            raise StoreError(f"store of {self.party}: a transaction is already open")
        self._begin()
        self._transaction = Transaction(self)
        try:
            yield self._transaction
            self._commit()
        except BaseException:
            self._rollback()
            raise
        finally:
            self._transaction._end()
            self._transaction = None

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _read(self, key: str) -> bytes | None: ...

    @abstractmethod
    def _names(self, prefix: str) -> list[str]: ...

    @abstractmethod
    def _write(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    def _erase(self, key: str) -> None: ...

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...


class MemoryStore(Store):
    """A store that lasts as long as the process; it may begin with the records of another."""

    def __init__(self, party: str, records: Mapping[str, bytes] | None = None) -> None:
        super().__init__(party)
        self._records: dict[str, bytes] = dict(records or {})
        self._before: dict[str, bytes] = {}

    def snapshot(self) -> dict[str, bytes]:
        """All records as they are now, replies included."""
        return dict(self._records)

    def _read(self, key: str) -> bytes | None:
        return self._records.get(key)

    def _names(self, prefix: str) -> list[str]:
        return sorted(key for key in self._records if key.startswith(prefix))

    def _write(self, key: str, value: bytes) -> None:
        self._records[key] = bytes(value)

    def _erase(self, key: str) -> None:
        self._records.pop(key, None)

    def _begin(self) -> None:
        self._before = dict(self._records)

    def _commit(self) -> None:
        self._before = self._records

    def _rollback(self) -> None:
        self._records = self._before

    def close(self) -> None:
        """Nothing to let go of: the records stay as long as the object."""


def _check_name(key: str) -> None:
    if not _NAME.fullmatch(key):
        raise StoreError("names of records need 1 to 1024 printable ASCII characters")


def _check_own_name(key: str) -> None:
    _check_name(key)
    if key.startswith(REPLY_PREFIX):
        raise StoreError(f"names that start with {REPLY_PREFIX} belong to the reply journal")


def _reply_head(message_id: str) -> str:
    # "|" separates the parts; an id with one could be taken for the part of another reply.
    if "|" in message_id:
        raise StoreError("a message id must not contain |")
    return f"{REPLY_PREFIX}{message_id}"


def _reply_part(message_id: str, index: int | str = "") -> str:
    return f"{REPLY_PREFIX}{message_id}|{index}"

"""XML files as batches of records, in constant memory, also of files that are made to do harm.

A file holds one message, or an envelope with any number of them: every `Document` element of the
wanted kind is read.  Of each record in it (a transaction) the wanted elements are kept as text, and
nothing else, so memory is that of a batch.

The parser is Python's own expat.  A document type declaration is refused, so there are no entities
to expand and nothing outside of the file to open.  Depth, text, tags and the growth of compressed
data are bounded.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn
from xml.parsers import expat

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.layout import Element, Layout, Version, root_element

BATCH_RECORDS = 20_000
MAX_DEPTH = 64
MAX_TEXT = 10_000  # characters of an element that is read; ISO 20022 allows a few hundred
MAX_TAG_BYTES = 1 << 20  # of a tag or a comment
MAX_GROWTH = 200  # of compressed data; messages shrink to about a tenth

Record = tuple[str | None, ...]

_CHUNK_BYTES = 1 << 16
_BATCH_BYTES = 1 << 26


def read_records(
    path: Path, layouts: Sequence[Layout], versions: set[Version], body: bytes | None = None
) -> Iterator[tuple[str, list[Record]]]:
    """The records of a file in batches, each with its kind; adds to `versions` what it has met.

    `body`: what the file would hold, if there is none; `path` is then what errors call it.
    """
    reader = _Reader(path, layouts, versions)
    n_bytes = 0
    for chunk in _chunks(path) if body is None else _pieces(body):
        reader.feed(chunk)
        n_bytes += len(chunk)
        if n_bytes >= _BATCH_BYTES or reader.n_waiting() >= BATCH_RECORDS:
            yield from reader.take()
            n_bytes = 0
    reader.close()
    yield from reader.take()


class _Reader:
    """Feeds a parser and collects records from its events."""

    def __init__(self, path: Path, layouts: Sequence[Layout], versions: set[Version]) -> None:
        self._waiting: dict[str, list[Record]] = {layout.kind: [] for layout in layouts}
        self._path = path
        self._layouts = {layout.kind: layout for layout in layouts}
        self._versions = versions
        self._roots: dict[str, Element] = {}
        self._fed = 0
        self._depth = 0
        self._outermost = ""
        self._parser = expat.ParserCreate(namespace_separator="|")
        self._parser.buffer_text = True
        self._parser.ordered_attributes = True
        self._text: list[str] = []
        self._element: Callable[[], Element | None] = lambda: None
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._search()

    def feed(self, chunk: bytes) -> None:
        self._parse(chunk, final=False)
        self._fed += len(chunk)
        if self._fed - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
            self._refuse(f"a tag or comment is longer than {MAX_TAG_BYTES:,} bytes")
        self._bound_text()

    def _bound_text(self) -> None:
        """A text that has not ended is bounded here, any other where it ends."""
        node = self._element()
        if node is None or node.index < 0:
            self._text.clear()  # between elements
        elif sum(map(len, self._text)) > MAX_TEXT:
            self._refuse_text(node)

    def _refuse_text(self, node: Element) -> NoReturn:
        self._refuse(f"element {node.path}: a text longer than {MAX_TEXT:,} characters")

    def close(self) -> None:
        self._parse(b"", final=True)
        if not self._versions:
            wanted = " or ".join(self._layouts)
            self._refuse(
                f"no {wanted} message: there is no element Document"
                f" (the outermost element is {self._outermost})"
            )

    def n_waiting(self) -> int:
        """Records that have not been taken."""
        return sum(map(len, self._waiting.values()))

    def take(self) -> Iterator[tuple[str, list[Record]]]:
        """The records so far, by kind of message."""
        for kind, records in self._waiting.items():
            if records:
                taken = records.copy()
                records.clear()
                yield kind, taken

    def _parse(self, data: bytes, *, final: bool) -> None:
        try:
            self._parser.Parse(data, final)
        except expat.ExpatError as error:
            reason = f"{expat.ErrorString(error.code)} in line {error.lineno}"
            ends = "the file ends inside of an element: " if final else ""
            self._refuse(f"not well-formed XML ({ends}{reason})")
        except (LookupError, ValueError):  # of Python's codecs, which expat asks for
            self._refuse("the encoding that it declares cannot be read; save it as UTF-8")

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self._path}: {what}")

    def _refuse_doctype(self, *_: object) -> None:
        self._refuse("has a document type declaration (DOCTYPE), which is not accepted")

    def _search(self) -> None:
        """Look for the next Document."""
        self._element = lambda: None
        self._parser.StartElementHandler = self._outer_start
        self._parser.EndElementHandler = self._outer_end

    def _outer_start(self, name: str, _: object) -> None:
        namespace, _, local = name.rpartition("|")
        self._outermost = self._outermost or local
        if local == "Document":
            self._read_document(namespace)
            return
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"elements are nested more than {MAX_DEPTH} deep")

    def _outer_end(self, _: str) -> None:
        self._depth -= 1

    def _read_document(self, namespace: str) -> None:
        version = Version.of(namespace)
        if version is None:
            self._refuse(
                f"the namespace of Document is {namespace[:100]!r}, not one of ISO 20022"
                f" (urn:iso:std:iso:20022:tech:xsd:{next(iter(self._layouts))}.001.08)"
            )
        layout = self._layouts.get(version.kind)
        if layout is None:
            self._refuse(f"a message {version}, where {' or '.join(self._layouts)} is expected")
        self._versions.add(version)
        if namespace not in self._roots:
            self._roots[namespace] = root_element(layout, namespace)
        self._read_elements(layout, self._roots[namespace])

    def _read_elements(self, layout: Layout, root: Element) -> None:
        """Handlers for one Document.  Closures over local names: they run for every element.

        Text is collected without a handler of ours, wherever it is, and thrown away where an
        element begins that is read; `feed` bounds how much of it there can be.
        """
        refuse, records, text = self._refuse, self._waiting[layout.kind], self._text
        n_header = len(layout.header)
        values: list[str | None] = [None] * len(layout.names)
        blank = values[n_header:]
        stack: list[Element] = []
        push, pop, forget = stack.append, stack.pop, text.clear
        node, skipped, n_records = root, 0, 0

        def start(name: str, attributes: list[str]) -> None:
            nonlocal node, skipped
            if skipped:
                skipped += 1
                if skipped > MAX_DEPTH:
                    refuse(f"elements are nested more than {MAX_DEPTH} deep")
                return
            child = node.children.get(name)
            if child is None:
                skipped = 1
                return
            push(node)
            node = child
            if child.index >= 0:
                forget()
                if child.attribute:
                    values[child.attribute_index] = _value(child.attribute, attributes)

        def end(_: str) -> None:
            nonlocal node, skipped, n_records
            if skipped:
                skipped -= 1
                return
            index = node.index
            if index >= 0:
                value = text[0] if len(text) == 1 else "".join(text)
                if len(value) > MAX_TEXT:
                    self._refuse_text(node)
                if values[index] is not None:
                    value = self._again(node, f"{values[index]}\n{value}", n_records + 1)
                values[index] = value
            elif node.is_record:
                records.append(tuple(values))
                values[n_header:] = blank
                n_records += 1
            elif not stack:
                self._end_document(layout, values, n_records)
                return
            node = pop()

        self._element = lambda: node
        self._parser.StartElementHandler = start
        self._parser.EndElementHandler = end

    def _again(self, node: Element, texts: str, number: int) -> str:
        """The texts of an element that has occurred before."""
        if not node.repeated:
            self._refuse(f"transaction {number}: element {node.path} occurs more than once")
        if len(texts) > MAX_TEXT:
            self._refuse_text(node)
        return texts

    def _end_document(self, layout: Layout, values: Sequence[str | None], n_records: int) -> None:
        message = f"message {(values[0] or '').strip()[:35]!r}"
        if layout.needs_record and not n_records:
            self._refuse(f"{message}: names no transaction (one about a whole group is not read)")
        if layout.n_records is not None:
            stated = values[layout.header.index(layout.n_records)]
            # Zeros may come first, in up to 15 digits.
            if stated is not None and stated.strip().lstrip("0") != str(n_records).lstrip("0"):
                self._refuse(
                    f"{message}: element {layout.n_records} is {stated.strip()[:20]!r},"
                    f" and the message has {n_records:,} {layout.record}"
                )
        self._search()


def _pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), _CHUNK_BYTES):
        yield body[start : start + _CHUNK_BYTES]


def _value(name: str, attributes: list[str]) -> str | None:
    """Of an attribute, in a list of names and values in turn."""
    names = attributes[::2]
    return attributes[2 * names.index(name) + 1] if name in names else None


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, decompressed if its name ends in .gz."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
                return
            yield from _decompressed(path, file)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: not a readable gzip file ({error})") from None


def _decompressed(path: Path, file: IO[bytes]) -> Iterator[Any]:
    n_out = 0
    with gzip.GzipFile(fileobj=file) as compressed:
        while chunk := compressed.read(_CHUNK_BYTES):
            n_out += len(chunk)
            if n_out > MAX_GROWTH * file.tell() + _CHUNK_BYTES:
                raise DataError(
                    f"{path}: expands to more than {MAX_GROWTH} times its size; decompress it"
                    " yourself if you trust it"
                )
            yield chunk

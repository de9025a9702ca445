"""The file of a local model: a header and arrays, no code.

    magic, 8 bytes │ length of the header, 4 bytes │ header, JSON │ arrays │ SHA-256 of all before

Numbers are little-endian.  The header says how long the arrays are, so the file has exactly one
length; what is truncated, damaged or foreign is refused before anything is done with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.tree_ensemble import TreeEnsemble
from pv4fad.errors import DataError

MAGIC = b"PV4FADLM"
VERSION = 1
_LENGTH_BYTES, _DIGEST_BYTES = 4, 32
_MAX_FEATURES = 2**15 - 1
_DTYPES = ("<i4", "<i2", "<f4", "u1", "<f8")  # n_nodes, feature, threshold, missing_right, value


def write_model(names: Sequence[str], base: float, trees: TreeEnsemble) -> bytes:
    """Equal contents give equal bytes."""
    header = {
        "version": VERSION,
        "features": list(names),
        "base": base,
        "trees": len(trees),
        "nodes": len(trees.feature),
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    arrays: Sequence[NDArray[Any]] = (
        trees.n_nodes, trees.feature, trees.threshold, trees.missing_right, trees.value,
    )  # fmt: skip
    parts = [array.astype(dtype).tobytes() for array, dtype in zip(arrays, _DTYPES, strict=True)]
    body = b"".join([MAGIC, len(text).to_bytes(_LENGTH_BYTES, "little"), text, *parts])
    return body + hashlib.sha256(body).digest()


def read_model(data: bytes) -> tuple[tuple[str, ...], float, TreeEnsemble]:
    """Names of the features, base, trees; DataError unless it is a sound file of this version."""
    if not data.startswith(MAGIC):
        raise DataError("not a local model of PV4FAD")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise DataError("local model: truncated or damaged; train again, or restore the file")
    start = len(MAGIC) + _LENGTH_BYTES
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    names, base, n_trees, n_nodes = _header(body[start:end])
    lengths = (n_trees, n_nodes, n_nodes, n_nodes, n_nodes)
    sizes = [n * np.dtype(dtype).itemsize for n, dtype in zip(lengths, _DTYPES, strict=True)]
    if end + sum(sizes) != len(body):
        raise DataError("local model: the arrays are not of the length that the header says")
    parts = np.split(np.frombuffer(body, np.uint8)[end:], np.cumsum(sizes)[:-1])
    sizes_of_trees, feature, threshold, missing_right, value = (
        np.frombuffer(part.tobytes(), dtype) for part, dtype in zip(parts, _DTYPES, strict=True)
    )
    if (missing_right > 1).any():
        raise DataError("local model: a node sends missing values neither left nor right")
    trees = TreeEnsemble(
        len(names),
        sizes_of_trees.astype(np.int32),
        feature.astype(np.int16),
        threshold.astype(np.float32),
        missing_right.astype(bool),
        value.astype(np.float64),
    )
    return names, base, trees


def _header(text: bytes) -> tuple[tuple[str, ...], float, int, int]:
    try:
        document = json.loads(text)
    except ValueError:  # of UTF-8 and of JSON
        raise DataError("local model: the header is not JSON") from None
    match document:
        case {"version": version} if version != VERSION:
            raise DataError(f"local model of version {version}; this program reads {VERSION}")
        case {
            "version": int(),
            "features": [*names],
            "base": float(base),
            "trees": trees,
            "nodes": nodes,
        } if (
            all(isinstance(name, str) for name in names)
            and 0 < len(names) == len(set(names)) <= _MAX_FEATURES
            and np.isfinite(base)
            and _is_count(trees)
            and _is_count(nodes)
        ):
            return tuple(names), base, trees, nodes
    raise DataError("local model: fields of the header are missing or wrong")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31

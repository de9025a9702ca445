"""Canonical identifiers: one spelling for an account and for a bank, whoever writes it.

    account id   all white space removed, the letters a-z upper-cased, nothing else changed
    BIC8         the same, then the first 8 characters of a valid BIC (8 or 11 characters)

The payment network and a bank must arrive at the same bytes, so each rule exists once as a
function on `str` and once as a polars expression, tested equal.  Only ASCII letters change case:
full Unicode case mapping differs between library versions, and account ids are ASCII in practice.
"""

from __future__ import annotations

import re
import string

import polars as pl

from pv4fad.errors import DataError

# Unicode's White_Space property and the ASCII separators that Python's `str.split` also takes.
# Spelled out, because `\s` means something else in Python's `re` than in polars' regex engine.
_SPACES = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACE_PATTERN = f"[{_SPACES}]"
_BIC_PATTERN = "^([A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2})(?:[A-Z0-9]{3})?$"

_python_space = re.compile(_SPACE_PATTERN)
_python_bic = re.compile(_BIC_PATTERN)


def canonical_account(text: str) -> str:
    """The canonical spelling of an account id; empty if there was nothing but white space."""
    # On bytes, `upper` changes ASCII letters only.
    return _python_space.sub("", text).encode().upper().decode()


def canonical_account_expr(text: pl.Expr) -> pl.Expr:
    """`canonical_account` for a String column; null stays null."""
    return text.str.replace_all(_SPACE_PATTERN, "").str.replace_many(
        list(string.ascii_lowercase), list(string.ascii_uppercase)
    )


def canonical_bic8(text: str) -> str:
    """The institution's BIC8; a branch code (characters 9-11) is cut off."""
    match = _python_bic.fullmatch(canonical_account(text))
    if match is None:
        raise DataError(f"{text!r} is not a BIC (8 or 11 characters, such as DEUTDEFF)")
    return match[1]


def canonical_bic8_expr(text: pl.Expr) -> pl.Expr:
    """`canonical_bic8` for a String column; null where there is no valid BIC."""
    return canonical_account_expr(text).str.extract(_BIC_PATTERN, 1)

"""Which account ids are IBANs: the form and the check digits of ISO 13616.

That finds all single wrong characters and 99 % of other mistakes.  Lengths and account numbers by
country are not checked: the packages that know them bring country data of several megabytes under
a licence unlike ours, for accounts that are reported and used all the same.
"""

from __future__ import annotations

import numpy as np
import polars as pl

_FORM = "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"
_LONGEST = 34


def is_iban(accounts: pl.Series) -> pl.Series:
    """True where a canonical account id is an IBAN; false for null."""
    has_form = accounts.str.contains(_FORM).fill_null(value=False)
    right = np.zeros(len(accounts), bool)
    if has_form.any():
        right[has_form.to_numpy()] = _remainders(accounts.filter(has_form)) == 1
    return pl.Series(accounts.name, right)


def _remainders(ibans: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Modulo 97, of the digits with the first four characters last and A = 10, B = 11, ..."""
    turned = (ibans.str.slice(4) + ibans.str.slice(0, 4)).str.pad_end(_LONGEST, " ")
    codes = np.array(turned.to_list(), f"S{_LONGEST}").view(np.uint8).reshape(-1, _LONGEST)
    remainder = np.zeros(len(ibans), np.int64)
    for column in codes.T.astype(np.int64):
        is_digit = (column >= ord("0")) & (column <= ord("9"))
        with_digit = (10 * remainder + column - ord("0")) % 97
        with_letter = (100 * remainder + column - ord("A") + 10) % 97
        added = np.where(is_digit, with_digit, with_letter)
        remainder = np.where(column == ord(" "), remainder, added)
    return remainder

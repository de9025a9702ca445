"""What the columns of payments hold, besides what columns of any table can hold."""

from __future__ import annotations

import re
from datetime import date

import polars as pl

from pv4fad.payments.identity import (
    canonical_account,
    canonical_account_expr,
    canonical_bic8,
    canonical_bic8_expr,
)
from pv4fad.tables.columns import Kind, of_form, plain_text


def _bic(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return canonical_bic8_expr(cell)


def _currency(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return pl.when(cell.str.contains("^[A-Z]{3}$")).then(cell)


def _settlement_date(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    if isinstance(stored, pl.Date):
        return cell
    # A number has lost its leading zeros: 50105 is 2005-01-05.
    text = cell.cast(pl.String)
    short = pl.concat_str(pl.lit("20"), text.str.zfill(6)).str.to_date("%Y%m%d", strict=False)
    # ISO 8601, of the same years.
    iso = text.str.extract(r"^(20[0-9]{2}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}:[0-9]{2})?$")
    return pl.coalesce(short, iso.str.to_date("%Y-%m-%d", strict=False))


_PLAIN_CURRENCY = re.compile("[A-Z]{3}")
_PLAIN_DATE = re.compile("20[0-9]{2}-[0-9]{2}-[0-9]{2}")


def _plain_account(text: str) -> str:
    return plain_text(canonical_account(text))


def _plain_currency(text: str) -> str:
    return of_form(_PLAIN_CURRENCY, text)


def _plain_date(text: str) -> date:
    return date.fromisoformat(of_form(_PLAIN_DATE, text))


ACCOUNT = Kind(
    "account id (text: numbers lose leading zeros; give the path of the file, or read it as text)",
    pl.String(),
    clean=canonical_account_expr,
    plain=_plain_account,
)
BIC = Kind("BIC", pl.Categorical(), _bic, "an invalid BIC", plain=canonical_bic8)
CURRENCY = Kind(
    "three-letter currency code",
    pl.Categorical(),
    _currency,
    "no three-letter currency code",
    plain=_plain_currency,
)
SETTLEMENT_DATE = Kind(
    "date (YYMMDD)",
    pl.Date(),
    _settlement_date,
    "an unparsable date (expected YYMMDD or YYYY-MM-DD)",
    lambda stored: isinstance(stored, pl.Date) or stored.is_integer(),
    plain=_plain_date,
)

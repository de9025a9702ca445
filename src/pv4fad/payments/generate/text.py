"""Texts in the shapes of the challenge format: identifiers, names, addresses, references.

All of them are made of small word lists and random characters; no real person is meant.
"""

from __future__ import annotations

import string

import numpy as np
import polars as pl
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_COUNTRIES = ("FR", "DE", "US", "GB", "IT", "ES", "NL", "BE", "JP", "IE", "PT", "AT")
_PLAIN_NUMBER_COUNTRIES = ("US", "JP")  # their accounts are 18 digits, the others IBAN-like

_GIVEN = (
    "ADA", "BORIS", "CLARA", "DAVID", "ELENA", "FELIX", "GRETA", "HUGO", "IRENE", "JONAS", "KARIN",
    "LEON", "MARTA", "NILS", "OLGA", "PAUL", "QUENTIN", "ROSA", "SIMON", "TESSA", "URSULA",
    "VICTOR", "WANDA", "XAVER", "YVES", "ZOE",
)  # fmt: skip
_FAMILY = (
    "ABEL", "BAKER", "CONTI", "DUBOIS", "EVANS", "FISCHER", "GARCIA", "HANSEN", "IVANOV", "JANSEN",
    "KELLER", "LAMBERT", "MORI", "NOVAK", "OTTO", "PEREIRA", "QUINN", "ROSSI", "SATO", "TANAKA",
    "URBAN", "VOGEL", "WALSH", "XU", "YOUNG", "ZIMMER",
)  # fmt: skip
_COMPANY = ("TRADING", "LOGISTICS", "FOODS", "TEXTILES", "MOTORS", "SYSTEMS", "MEDICAL", "ENERGY")
_STREETS = (
    "RUE DES LILAS", "MAIN STREET", "BAHNHOFSTRASSE", "VIA ROMA", "CALLE MAYOR", "KERKSTRAAT",
    "MILL LANE", "AVENUE DU PARC", "GARTENWEG", "HIGH STREET", "STATION ROAD", "LINDENALLEE",
)  # fmt: skip
_TOWNS = (
    "VILLENEUVE", "NEUSTADT", "SPRINGFIELD", "KINGSTON", "BORGO", "VILLANUEVA", "NIEUWPOORT",
    "OAKDALE", "ROCHEFORT", "STEINBACH", "ASHFORD", "MONTALTO", "LAKEVIEW", "SAINT PIERRE",
)  # fmt: skip
_STATES = ("CA", "DC", "FL", "IL", "MA", "NY", "TX", "WA")

_LETTERS = np.frombuffer(string.ascii_uppercase.encode(), np.uint8)
_DIGITS = np.frombuffer(string.digits.encode(), np.uint8)
_ALPHANUMERICS = np.concatenate([_LETTERS, _DIGITS])
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def bank_identifiers(n: int, rng: np.random.Generator) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Different BIC8s, and the country of each."""
    countries = tuple(str(code) for code in rng.choice(_COUNTRIES, n))
    # The second letter counts up, so that no two are equal.
    letters = _texts(_LETTERS[rng.integers(0, 26, (n, 6))]).to_list()
    middle = [_base26(number) for number in range(n)]
    bics = tuple(
        f"{text[:2]}{number}{country}{text[2:4]}"
        for text, number, country in zip(letters, middle, countries, strict=True)
    )
    return bics, countries


def message_ids(prefix: str, n: int, rng: np.random.Generator) -> pl.Series:
    """`n` different ids: the prefix and 8 alphanumerics, in no order."""
    numbers = _distinct(n, len(_ALPHANUMERICS) ** 8, rng)
    codes = _in_base(numbers, len(_ALPHANUMERICS), 8)
    return prefix + _texts(_ALPHANUMERICS[codes])


def payment_ids(n: int, rng: np.random.Generator) -> pl.Series:
    """`n` random version 4 UUIDs."""
    characters = _HEX[rng.integers(0, 16, (n, 36), dtype=np.uint8)]
    characters[:, [8, 13, 18, 23]] = ord("-")
    characters[:, 14] = ord("4")
    characters[:, 19] = _HEX[8 + rng.integers(0, 4, n)]
    return _texts(characters)


def payment_references(ordering: Integers, rng: np.random.Generator) -> pl.Series:
    """PETX22-ABCDE-1234: letters that belong to the ordering account, digits to the payment."""
    letters = _in_base(ordering * 7919 % 26**5, 26, 5)
    digits = rng.integers(0, 10, (len(ordering), 4))
    parts = (_LETTERS[letters], np.full((len(ordering), 1), ord("-"), np.uint8), _DIGITS[digits])
    return "PETX22-" + _texts(np.concatenate(parts, axis=1))


def account_numbers(countries: pl.Series, rng: np.random.Generator) -> pl.Series:
    """Different account ids: 18 digits, or IBAN-like with country code and two more digits."""
    n = len(countries)
    digits = _texts(_DIGITS[_in_base(_distinct(n, 10**18, rng), 10, 18)])
    check = _texts(_DIGITS[rng.integers(0, 10, (n, 2))])
    plain = countries.is_in(_PLAIN_NUMBER_COUNTRIES)
    frame = pl.DataFrame({"country": countries, "check": check, "digits": digits, "plain": plain})
    iban = pl.concat_str("country", "check", "digits")
    return frame.select(account=pl.when("plain").then("digits").otherwise(iban))["account"]


def holder_names(n: int, rng: np.random.Generator) -> pl.Series:
    """Names of people, and of a company now and then."""
    given, family, company = (_pick(words, n, rng) for words in (_GIVEN, _FAMILY, _COMPANY))
    frame = pl.DataFrame({"given": given, "family": family, "company": company})
    person = pl.concat_str("given", "family", separator=" ")
    firm = pl.concat_str("family", "company", pl.lit("LTD"), separator=" ")
    is_firm = pl.Series("is_firm", rng.random(n) < 0.15)
    return frame.with_columns(is_firm).select(name=pl.when("is_firm").then(firm).otherwise(person))[
        "name"
    ]


def streets(n: int, rng: np.random.Generator) -> pl.Series:
    """House number and street."""
    numbers = pl.Series("number", rng.integers(1, 200, n)).cast(pl.String)
    return (numbers + " " + _pick(_STREETS, n, rng)).alias("street")


def country_city_zips(countries: pl.Series, rng: np.random.Generator) -> pl.Series:
    """`FR/42859 VILLE`, and `US/TOWN, DC 58442` in the United States."""
    n = len(countries)
    frame = pl.DataFrame(
        {
            "country": countries,
            "zip": _texts(_DIGITS[rng.integers(0, 10, (n, 5))]),
            "town": _pick(_TOWNS, n, rng),
            "state": _pick(_STATES, n, rng),
        }
    )
    american = pl.format("{}/{}, {} {}", "country", "town", "state", "zip")
    other = pl.format("{}/{} {}", "country", "zip", "town")
    return frame.select(city=pl.when(pl.col("country") == "US").then(american).otherwise(other))[
        "city"
    ]


def _pick(words: tuple[str, ...], n: int, rng: np.random.Generator) -> pl.Series:
    return pl.Series(words).gather(rng.integers(0, len(words), n))


def _texts(characters: Bytes) -> pl.Series:
    """One string per row of ASCII codes."""
    rows = np.ascontiguousarray(characters)
    return pl.Series(rows.view(f"S{rows.shape[1]}").ravel()).cast(pl.String)


def _distinct(n: int, below: int, rng: np.random.Generator) -> Integers:
    """`n` different numbers, in random order."""
    numbers = np.empty(0, np.int64)
    while len(numbers) < n:
        numbers = np.unique(np.concatenate([numbers, rng.integers(0, below, n + 64)]))
    return rng.permutation(numbers)[:n]


def _in_base(numbers: Integers, base: int, length: int) -> Integers:
    """The digits of each number, most significant first."""
    powers = base ** np.arange(length - 1, -1, -1, dtype=np.int64)
    return numbers[:, None] // powers % base


def _base26(number: int) -> str:
    return string.ascii_uppercase[number // 26 % 26] + string.ascii_uppercase[number % 26]

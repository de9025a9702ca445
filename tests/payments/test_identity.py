"""Claims about canonical identifiers."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import DataError
from pv4fad.payments.identity import (
    canonical_account,
    canonical_account_expr,
    canonical_bic8,
    canonical_bic8_expr,
)

# Text weighted towards what could tell the two engines apart: spaces of all kinds, odd letters.
SPACES = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u3000\ufeff"
)
TEXT = st.text(
    st.one_of(
        st.sampled_from(SPACES), st.sampled_from("aZ09ßŉǆﬁİıſK|"), st.characters(codec="utf-8")
    )
)
ALPHANUMERIC = "ABCXYZ019"
BICS = st.from_regex(r"[A-Za-z0-9]{4}[A-Za-z]{2}[A-Za-z0-9]{2}([A-Za-z0-9]{3})?", fullmatch=True)
ALMOST_BICS = st.one_of(BICS, st.text(ALPHANUMERIC, min_size=6, max_size=12), TEXT)


def _python_bic8(text: str) -> str | None:
    try:
        return canonical_bic8(text)
    except DataError:
        return None


@given(st.lists(TEXT, min_size=1))
def test_accounts_are_canonicalised_alike_one_by_one_and_as_a_column(texts: list[str]) -> None:
    column = pl.DataFrame({"a": texts}).select(canonical_account_expr(pl.col("a")))
    assert column["a"].to_list() == [canonical_account(text) for text in texts]


@given(st.lists(ALMOST_BICS, min_size=1))
def test_bics_are_canonicalised_alike_one_by_one_and_as_a_column(texts: list[str]) -> None:
    column = pl.DataFrame({"b": texts}).select(canonical_bic8_expr(pl.col("b")))
    assert column["b"].to_list() == [_python_bic8(text) for text in texts]


@given(TEXT)
def test_canonical_spelling_is_stable(text: str) -> None:
    assert canonical_account(canonical_account(text)) == canonical_account(text)


def test_spelling_variants_of_an_account_are_one_account() -> None:
    variants = [
        "gb29 nwbk 6016 1331 9268 19",
        " GB29NWBK60161331926819\n",
        "GB29NWBK60161331926819",
    ]
    assert {canonical_account(text) for text in variants} == {"GB29NWBK60161331926819"}


def test_only_ascii_letters_change_case() -> None:
    assert canonical_account("straße é 1") == "STRAßEé1"


def test_branch_code_is_cut_off() -> None:
    assert canonical_bic8("deutdeff500") == canonical_bic8("DEUT DE FF") == "DEUTDEFF"


@pytest.mark.parametrize(
    "text", ["", "DEUTDEF", "DEUTDEFF5", "DEUTDEFF5000", "DEUT1EFF", "DEUTDEÉF"]
)
def test_what_is_no_bic_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not a BIC"):
        canonical_bic8(text)

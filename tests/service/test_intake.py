"""Claims about payments that are checked one text at a time, without a query."""

from datetime import date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.payments.schema import TRANSACTION_COLUMNS
from pv4fad.tables.columns import CATEGORY, ID, NUMBER, Column
from pv4fad.tables.parsing import Parser, plain_table

KINDS = dict.fromkeys(
    [one.kind for one in TRANSACTION_COLUMNS if one.kind.plain is not None] + [ID, NUMBER, CATEGORY]
)
SPACES = st.text("\t\n\x0b\r\x1c\x1f \x85\xa0\u1680\u200a\u200b\u2028\u3000\ufeff", max_size=2)
MOMENTS = st.datetimes(datetime(1960, 1, 1), datetime(2210, 1, 1))
FORMS = st.one_of(
    MOMENTS.map(lambda moment: moment.isoformat(timespec="seconds")),
    MOMENTS.map(str),
    MOMENTS.map(lambda moment: moment.date().isoformat()),
    st.from_regex(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]( 2[0-9]:[0-6]0:[0-6]0Z?)?", fullmatch=True),
    st.from_regex(r"[-+]?[0-9]{1,24}(\.[0-9]{0,24})?(e[0-9])?", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]{4}[A-Za-z]{2}[A-Za-z0-9]{2}([A-Z0-9]{3})?", fullmatch=True),
    st.floats(0).map(str),
    st.text("AZaz٣ßİ", min_size=2, max_size=4),
    st.text(st.characters(codec="utf-8"), max_size=4),
)
TEXTS = st.one_of(FORMS, st.tuples(SPACES, FORMS, SPACES).map("".join))


def of_query(column, texts):
    """The rows by a query, and whether something is wrong with one of them."""
    parser = Parser.of([column], {column.name: pl.String()})
    parsed = parser.parse(pl.DataFrame({column.name: texts}, schema={column.name: pl.String}))
    return parsed.select(column.name), any(parsed[check.mask].any() for check in parser.checks)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20))
def test_a_plain_text_is_good_and_has_the_value_that_a_query_gives_it(kind, texts):
    column = Column("x", kind)
    plain = [text for text in texts if plain_table([column], {"x": [text]}) is not None]
    if plain:
        rows, is_wrong = of_query(column, plain)
        assert not is_wrong
        assert plain_table([column], {"x": plain}).equals(rows)


def test_all_dates_of_the_century_are_plain():
    column = next(one for one in TRANSACTION_COLUMNS if one.name == "SettlementDate")
    days = [date(2000, 1, 1) + timedelta(n) for n in range(36_525)]
    texts = [day.isoformat() for day in days]
    found = plain_table([column], {column.name: texts})
    assert found[column.name].to_list() == days
    assert found.equals(of_query(column, texts)[0])


def test_payments_as_they_come_are_plain_and_missing_values_are_not(payments):
    columns = [one for one in TRANSACTION_COLUMNS if one.name != "Label"]
    names = [one.name for one in columns]
    cells = {
        name: [None if one[name] is None else str(one[name]) for one in payments] for name in names
    }
    assert plain_table(columns, cells).height == len(payments)
    for one in columns:
        without = {**cells, one.name: [*cells[one.name][:-1], None]}
        assert (plain_table(columns, without) is not None) == one.nullable

"""Claims about files: whatever is wrong with one, the error says what, where and how often."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import DataError
from pv4fad.tables.columns import TEXT, Column, choice
from pv4fad.tables.sheet import read_sheet

ROW = "(counted from 1 after the header)"
COLUMNS = (
    Column("Person", TEXT),
    Column("Street", TEXT, nullable=True),
    Column("Class", choice("class", ["0", "3"])),
)
SCHEMA = pl.Schema({column.name: column.dtype for column in COLUMNS})


def people(n: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Person": [f"PERSON{number}" for number in range(1, n + 1)],
            "Street": ["1 A STREET"] * n,
            "Class": ["0"] * n,
        }
    )


def read(path: Path) -> pl.DataFrame:
    return read_sheet(path, COLUMNS).settle("raise")[0]


def _set(frame: pl.DataFrame, column: str, row: int, value: str | None) -> pl.DataFrame:
    """The frame with another value in one cell; rows are counted from 1."""
    here = pl.int_range(pl.len()) == row - 1
    return frame.with_columns(pl.when(here).then(pl.lit(value)).otherwise(column).alias(column))


def _refusal(load: Callable[[], object]) -> list[str]:
    """The lines of the one DataError that `load` raises."""
    with pytest.raises(DataError) as refusal:
        load()
    return str(refusal.value).splitlines()


@pytest.mark.parametrize("content", [b"", b"\n", b"Person,Street,Class\n"])
def test_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.csv"
    path.write_bytes(content)
    (line,) = _refusal(lambda: read(path))
    assert line.startswith(f"{path}: the file is empty")


def test_wrong_encoding_is_refused_with_column_count_and_row(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    table = people(3)
    table = _set(_set(table, "Street", 2, "1 RUE\nDES FÉES"), "Street", 3, "CAFÉ")
    path.write_bytes(table.write_csv().encode("latin-1"))
    assert _refusal(lambda: read(path)) == [
        f"{path}: column Street: 2 rows have bytes that are not UTF-8 "
        f"(save the file with the encoding UTF-8); first: data row 2 {ROW}"
    ]


def test_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    content = people(1).write_csv().encode("utf-8-sig")
    path.write_bytes(content)
    assert read(path).height == 1
    path.write_bytes(content.replace(b"PERSON1", b"PERSON\xff"))
    assert "column Person: 1 row has bytes that are not UTF-8" in _refusal(lambda: read(path))[0]


def test_utf_16_and_a_badly_encoded_header_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    text = people(1).write_csv()
    path.write_bytes(text.encode("utf-16"))
    assert _refusal(lambda: read(path)) == [
        f"{path}: the file is UTF-16; save it with the encoding UTF-8"
    ]
    path.write_bytes(text.replace("Street", "Straße").encode("latin-1"))
    assert "the header line has bytes that are not UTF-8" in _refusal(lambda: read(path))[0]


def test_a_column_that_is_there_twice_is_refused_unless_it_has_no_name(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    text = people(1).write_csv()
    header, row = text.splitlines()
    path.write_text(f"\ufeff{header},Person\n{row},PERSON2\n", encoding="utf-8")
    assert _refusal(lambda: read(path)) == [f"{path}: the header line has the column Person twice"]
    path.write_text(f"{header},,\n{row},,\n")
    assert read(path).height == 1


def test_row_with_too_many_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    text = people(2).write_csv()
    path.write_text(text.rstrip("\n") + ",surplus\n")
    assert _refusal(lambda: read(path)) == [
        f"{path}: 1 row has more fields than the header; first: data row 2 {ROW}"
    ]


def test_unclosed_quotation_mark_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(people(1).write_csv() + 'PERSON2,"A,0\n')
    (line,) = _refusal(lambda: read(path))
    assert line.startswith(f"{path}: not well-formed CSV")


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    people(1).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    (line,) = _refusal(lambda: read(path))
    assert line.startswith(f"{path}: not a readable PARQUET file")


def test_absent_file_and_other_file_types_are_refused(tmp_path: Path) -> None:
    assert "not found" in _refusal(lambda: read(tmp_path / "gone.csv"))[0]
    path = tmp_path / "b.xlsx"
    path.write_text("x")
    assert _refusal(lambda: read(path)) == [f"{path}: neither a .csv nor a .parquet file"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 90),
            st.integers(0, 20),
            st.one_of(st.sampled_from([b'"', b",", b"\n", b"\r", b"\xff"]), st.binary(max_size=5)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_csv_is_loaded_or_refused_but_never_anything_else(
    damage: list[tuple[int, int, bytes]],
) -> None:
    content = people(3).write_csv().encode()
    for position, n_removed, inserted in damage:
        content = content[:position] + inserted + content[position + n_removed :]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "b.csv"
        path.write_bytes(content)
        with suppress(DataError):
            assert read(path).schema == SCHEMA

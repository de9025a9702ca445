"""Groups of rows by codes that can be far larger than the number of rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.tables.earlier import least_of_group


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 7, 2**31 - 1, 2**45]), st.integers(-(2**40), 2**40)),
        max_size=30,
    )
)
def test_the_least_of_a_group_takes_no_memory_for_codes_that_no_row_has(rows):
    group = np.array([code for code, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.int64)
    expected = [min(v for c, v in rows if c == code) for code, _ in rows]
    assert least_of_group(group, values).tolist() == expected

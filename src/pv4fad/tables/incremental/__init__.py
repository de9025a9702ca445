"""The same facts about rows as the batch code computes, for rows that arrive a few at a time.

    rows of training     →  loaded at once, as one large batch
    rows that arrive     →  taken in batches of any size; each then sees all rows taken so far

What is said about a row equals, bit for bit, what the batch code says about it when it is given the
rows taken until then, this batch included.  A row may be late: its time earlier than that of rows
already taken.  It sees what was strictly earlier, as any row, and rows that come after it see it;
what was said about rows before it arrived stays as it was said.

    numbering    text and pairs of numbers become small numbers
    timed_sums   sums over what is strictly earlier: all counts are questions to it
    legs         the first and the last row of each event
    dealings     when the same ids first dealt with each other
    arrivals     all of these, of a batch of rows
    features     the features of tables (`pv4fad.tables.features`)

State is arrays of integers: nothing in it is approximate, and all of it can be stored (`to_arrays`)
and read again (`from_arrays`) within seconds.
"""

"""Asking banks while payments are on their way: the engine of a payment network with live banks.

    payments ─▶ engine ─▶ judged by the own model ─▶ nothing to ask: decided at once
                  │
                  └─▶ held ─▶ taken up: questions ─▶ worker: a query ─▶ tick: sent ─▶ reply: bits
                                                                          released ◀─┘

    model       what is read from the store for a match in force
    knowledge   bits of this epoch: known, asked, on disk
    worker      a process that makes queries for some banks, and their masks in idle time
    crew        the workers, as the event loop sees them
    line        one bank: what is being made, sent and awaited; whether it answers
    newcomers   accounts that are in no table yet
    held        payments that wait for answers
    engine      the clock, and the way of a payment
    stored      the model in the store: follows it when another match is in force

At every tick every bank is sent one ciphertext: the query that was made in the tick before, or a
cover if there is none, or none is ready.  Payments are taken up soon after a tick, asked about at
the next, and released halfway after that: what is asked shows neither in sizes nor in times.
"""

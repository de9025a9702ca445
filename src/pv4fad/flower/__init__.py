"""A federation of organisations on machines of their own, with Flower as carrier (deployment.md).

    payment network            aggregator                 bank
    station ── ClientApp ────▶ ServerApp = relay ◀──── ClientApp ── station
                                   │
                                station

A *station* is the process of one party: its store, its data, its workers.  Flower's apps hold
nothing; they carry sealed bytes between a station and the relay (`exchange`).
"""

"""A federation of organisations, each on its own machine (docs/operate/deployment.md).

    payment network         aggregator           bank
    station ──────────────▶ hub ◀─────────────── station
                            relay ◀▶ station

A *station* is the process of one party: its store, its data, its workers.  The *relay* passes
sealed messages between stations and can read none that is not for the aggregator.  What connects
them is a *carrier* (`carrier`), which holds nothing and carries bytes: `pv4fad.deployment.hub`, or
`pv4fad.deployment.flower`.

    card, certificates, party_folder    a party's folder: keys, settings, cards of the others
    new_party, checking                 `pv4fad party init` and `check`
    envelope, exchange                  sealed messages, and what relay and stations tell each other
    station, members                    a party at work; `jobs`: the payment network leads
    relay, status                       at the aggregator
    running                             `pv4fad party run`
    live_keys                           sessions of live messages
"""

"""A hub of our own as carrier: gRPC with mutual TLS, one port at the aggregator, nothing polled.

    payment network                    aggregator                         bank
    station ── Exchange stream ──────▶ hub ◀────────── Exchange stream ── station
    service ── Live stream ──────────▶  │  ◀────────────── Live stream ── station
                                      relay

Every party dials out.  Who it is follows from its certificate, which is on its card: the hub lets
in the certificates of its cards and nobody else, and parties connect to the certificate on the
aggregator's card.

    connection   credentials, limits and names of the calls; how a party dials
    desk         the job under way at the hub, and its relay
    server       the hub: who is connected, and what is passed on
    node         connects a station with the hub, again and again
    carrier      the two of them as `pv4fad.deployment.carrier.Carrier`
    live         small messages that must not wait: from the payment network to a bank, and back

What is said on the streams is `pv4fad.deployment.exchange`, one fragment of at most a megabyte at a
time.  Live messages have streams and connections of their own, so that they wait neither behind
fragments in this program nor behind bytes in the network's buffers.
"""

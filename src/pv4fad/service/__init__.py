"""The live service: payments are judged as they come, people look at the alerts.

    payment ─▶ api ─▶ pipeline ─▶ engine ─▶ journal ─▶ answer
                                               │
                                               └─▶ alerts ─▶ desk ─▶ notices ─▶ a bank's inbox

A decision is on disk before anybody hears of it, and there is one for each payment id.  Everything
here is the payment network's own, but for `inbox`, which is a bank's.
"""

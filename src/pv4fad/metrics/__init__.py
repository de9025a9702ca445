"""Figures for Prometheus: what they are called, how they are kept, where they are read.

    catalogue   every metric that a process of PV4FAD shows: name, labels, what it says
    figures     counts and sources of one process, as the text that Prometheus reads
    endpoint    `/metrics`, `/healthz` and `/readyz` of a station

No figure is about a single account, payment or run: labels are names of parties, phases, kinds of
jobs and of errors, and other words that the code has.  So there are few of them, whatever happens.
"""

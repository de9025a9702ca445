"""PV4FAD: a payment network and its banks detect anomalous payments together, privately."""

__version__ = "0.1.0"

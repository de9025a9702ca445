"""Data at the payment network and at the banks: formats, checks, routing, features, a generator."""

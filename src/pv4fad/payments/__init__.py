"""Data at the payment network and at the banks: formats, checks, routing, features, a generator."""

from pv4fad.payments.schema import SCHEMA as SCHEMA

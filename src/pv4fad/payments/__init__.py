"""Data at the payment network and at the banks: formats, checks, routing, features, a generator.

>>> pv4fad.payments.SCHEMA.side_names
('ordering', 'beneficiary')
"""

from pv4fad.payments.schema import SCHEMA as SCHEMA

"""Everything PV4FAD raises on purpose.

    Pv4fadError
    ├── UserError            something the person at the keyboard can mend (exit code 2)
    │   ├── DataError        a file or table is not what it should be
    │   ├── ParameterError   a parameter is out of range, or the parameters do not fit together
    │   ├── NotFittedError   a detector is used before it was trained
    │   ├── BudgetError      a bank's privacy budget or query limit would be exceeded
    │   ├── PolicyError      a bank's policy does not allow a run
    │   └── StoreError       a party's folder is damaged, locked or of another version
    ├── ProtocolError        a message that must not be acted upon
    │   ├── WireError        bytes that are not a well-formed message
    │   ├── CiphertextError  bytes that are not a ciphertext of the expected ring and level
    │   └── OrderError       a message that does not fit the state of the party
    ├── PlacementError       the accounts of a table do not fit its bins (probability 2^-30)
    └── WorkerError          a worker process died or failed

Messages name what is wrong and what to do.  They never carry a secret value.

>>> try:
...     pv4fad.Detector(epsilon=1).detect(new_claims)
... except pv4fad.errors.UserError as error:
...     print(error)
this Detector is not fitted yet: call fit(rows, federation)
"""


class Pv4fadError(Exception):
    """Base of all errors raised on purpose."""


class UserError(Pv4fadError):
    """Something the person at the keyboard can mend."""


class DataError(UserError):
    """A file or table is not what it should be."""


class ParameterError(UserError):
    """A parameter is out of range, or the parameters do not fit together."""


class NotFittedError(UserError, AttributeError):
    """A detector is used before it was trained."""


class BudgetError(UserError):
    """A bank's privacy budget or query limit would be exceeded."""


class PolicyError(UserError):
    """A bank's policy does not allow a run."""


class StoreError(UserError):
    """A party's folder is damaged, locked or of another version."""


class ProtocolError(Pv4fadError):
    """A message that must not be acted upon; the party's state is unchanged."""


class WireError(ProtocolError):
    """Bytes that are not a well-formed message."""


class CiphertextError(ProtocolError):
    """Bytes that are not a ciphertext of the expected ring and level."""


class OrderError(ProtocolError):
    """A message that does not fit the state of the party."""


class PlacementError(Pv4fadError):
    """The accounts of a table do not fit its bins: the run must start again with a new hash key."""


class WorkerError(Pv4fadError):
    """A worker process died or failed."""

"""Atoms: what a holder says about one record (protocol.md §2).

Every record has exactly one atom, 0..K-1: its class, or the kind that its class belongs to
(`Schema.atoms`).  Atom 0 is the ordinary one unless it is not provided.  A *set* is a few atoms, as
their sorted numbers.  K is public; which sets are in use is not.
"""

AtomSet = tuple[int, ...]

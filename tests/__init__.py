"""The tests.  A package, so that no other package of this name is taken for it."""

"""Homomorphic encryption: the only package that knows the HE library."""

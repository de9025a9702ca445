"""Plain tables: how they are read as a schema says, and their features."""

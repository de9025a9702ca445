"""Who takes part: what each party may know, and how it answers a message."""

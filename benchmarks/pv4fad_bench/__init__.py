"""Speed, measured on this machine."""

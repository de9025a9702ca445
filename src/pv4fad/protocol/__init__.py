"""The order of the protocol (`order`), and a folder for each phase: messages, parts and steps."""

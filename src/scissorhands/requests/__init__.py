"""Deletion requests: a ledger of them, and the scrub that serves all that are open."""

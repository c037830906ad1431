"""Figures of the page: each says what it shows and what good looks like, and draws counts and means, never records."""

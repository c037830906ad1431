"""Generated bad input."""

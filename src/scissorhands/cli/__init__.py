"""The command line: the only part that prints."""

from .main import main

__all__ = ["main"]

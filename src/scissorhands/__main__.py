"""`python -m scissorhands`."""

from .cli import main

main()

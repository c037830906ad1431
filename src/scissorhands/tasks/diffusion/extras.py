"""Packages that only some measures need, imported when they are asked for."""

import importlib
from typing import Any

from ...errors import MissingError


def imported(module: str, extra: str) -> Any:
    """Import the module, or raise an error that says how to install it.

    >>> imported("torchmetrix", "diffusion")
    Traceback (most recent call last):
    scissorhands.errors.MissingError: 'torchmetrix' is not installed. Get it with: pip install 'scissorhands[diffusion]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"'{error.name or module}' is not installed. Get it with: pip install 'scissorhands[{extra}]'"
        ) from None

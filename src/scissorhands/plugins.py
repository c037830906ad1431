"""What a user names as `package.module:name`."""

import importlib
import sys
from typing import Any

from .errors import ModelError


def named_object(name: str) -> Any:
    """Import the object that `package.module:name` names; modules in the working directory are found too."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs somebody's code, which may raise anything
        raise ModelError(f"'{name}' cannot be imported: {type(error).__name__}: {error}.") from None

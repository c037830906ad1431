"""Makes a trained PyTorch model forget chosen training data, and measures how well it forgot."""

from importlib.metadata import version

import lazy_loader

from . import interrupts  # noqa: F401  # so that Ctrl-C ends a command quietly from here on

__version__ = version("scissorhands")

# The public names are in __init__.pyi. They are imported when they are used, since torch takes seconds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Random numbers by purpose: one seed for a run, one independent stream for each thing that draws from it."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch


def key(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for one purpose, the same on every machine.

    >>> key(0, "shuffle", 1) == key(0, "shuffle", 1)
    True
    >>> key(0, "shuffle", 1) == key(0, "shuffle", 2)
    False
    """
    text = "\0".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator for one purpose."""
    return torch.Generator().manual_seed(key(seed, *purpose))


def snapshot() -> dict[str, torch.Tensor]:
    """Return the state of PyTorch's global generators, which layers draw from."""
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def restore(kept: Mapping[str, torch.Tensor]) -> None:
    """Restore the state of PyTorch's global generators."""
    torch.set_rng_state(kept["cpu"])
    if "cuda" in kept:
        torch.cuda.set_rng_state(kept["cuda"])


@contextmanager
def seeded(seed: int, *purpose: str | int) -> Iterator[None]:
    """Seed PyTorch's global generators, which layers draw from, inside the block; restore them after."""
    with torch.random.fork_rng():
        # Without a GPU, torch.manual_seed keeps the formatted stack of every call, in case that one appears.
        seed_all = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
        seed_all(key(seed, *purpose))
        yield

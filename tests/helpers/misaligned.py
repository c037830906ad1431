"""Files of safetensors whose values lie at odd addresses when the file is mapped into memory."""

from pathlib import Path

from torch import nn


def misalign(path: Path) -> None:
    """Give the file a header of an odd length."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length].rstrip()
    header += b" " * (1 + len(header) % 2)
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])


def is_aligned(model: nn.Module) -> bool:
    """Return whether all weights lie where PyTorch puts its own."""
    return all(weight.data_ptr() % 32 == 0 for weight in model.parameters())

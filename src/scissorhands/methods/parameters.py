"""Which parameters of a model may change."""

from fnmatch import fnmatchcase

from torch import nn

from ..errors import ModelError, SettingError


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that may change, by name."""
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise ModelError("the model has no trainable parameter, so nothing in it can be scrubbed.")
    return found


def select(model: nn.Module, where: str) -> dict[str, nn.Parameter]:
    """The trainable parameters whose name matches one of the patterns in `where`, separated by commas.

    A pattern after a minus leaves out what it matches of those before it.

    >>> list(select(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "*,-1.*"))
    ['0.weight', '0.bias']
    """
    candidates = trainable(model)
    chosen: set[str] = set()
    for pattern in filter(None, (pattern.strip() for pattern in where.split(","))):
        matches = {name for name in candidates if fnmatchcase(name, pattern.removeprefix("-"))}
        if not matches and not pattern.startswith("-"):
            example = next(iter(candidates))
            raise SettingError(f"'where' is '{pattern}', which matches no trainable parameter. One is '{example}'.")
        chosen = chosen - matches if pattern.startswith("-") else chosen | matches
    if not chosen:
        raise SettingError(f"'where' is '{where}', which leaves no parameter.")
    return {name: p for name, p in candidates.items() if name in chosen}

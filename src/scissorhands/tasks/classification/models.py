"""Building, loading and saving models. A model folder holds config.json and model.safetensors; loading is strict."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from ...data.readers import Kind
from ...data.records import Records
from ...distributed import Inputs, full, load_weights, meta_device, on_rank_0, save_weights, shard
from ...errors import ModelError, did_you_mean, given, listed
from ...plugins import named_object
from ..pretrained import files_of, read_config, require_finite
from . import checkpoint as checkpoints
from . import huggingface
from .checkpoint import Checkpoint
from .classes import require_agreement
from .huggingface import HuggingFaceModel
from .imageclassifier import ImageClassifier
from .networks import IMAGE_NETWORKS, NETWORKS, TABLE_NETWORKS, Normalize, Regressor, network
from .textclassifier import TextClassifier

WEIGHTS = "model.safetensors"
_CPU = torch.device("cpu")
_MOST = 2**20  # classes, channels or width
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Blueprint:
    """How a model is built: one of our networks, a Hugging Face classifier, or the user's `package.module:factory`.

    `classes` are the names of its outputs, in their order, where they are known; `checkpoint` is the PyTorch file that
    its weights came in, if they did.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    checkpoint: Checkpoint | None = None

    def build(self) -> nn.Module:
        """Build the model with fresh weights."""
        factory = None if self.name in NETWORKS else named_object(self.name)
        if not factory and any(type(x) is not int or not 1 <= x <= _MOST for x in self.arguments.values()):
            wrong = given(dict(self.arguments))
            raise ModelError(f"the arguments of '{self.name}' are whole numbers from 1 to {_MOST}, not {wrong}.")
        try:
            if not factory:
                self._require_room()
            model = factory(**self.arguments) if factory else network(self.name, self.arguments)
        except ModelError:
            raise
        except Exception as error:  # it is somebody's code, and may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise ModelError(f"'{self.name}' cannot be built with {dict(self.arguments)}: {reason}") from None
        if not isinstance(model, nn.Module):
            raise ModelError(f"'{self.name}' returned a {type(model).__name__}, not a torch.nn.Module.")
        return model

    def _require_room(self) -> None:
        """Refuse a network of ours whose weights alone would not fit into this machine's memory."""
        with torch.device("meta"):
            needed = sum(weight.nbytes for weight in network(self.name, self.arguments).parameters())
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > memory:
            size = f"{needed / 2**30:.0f} GiB, and this machine has {memory / 2**30:.0f} GiB of memory"
            raise ModelError(f"'{self.name}' with {dict(self.arguments)} has weights of {size}.")


def create(
    name: str, records: Records, arguments: Mapping[str, Any], but: Sequence[int] = ()
) -> tuple[nn.Module, Blueprint]:
    """Create a model to train on the records `but` some: fresh, or pretrained where a Hugging Face model is named."""
    classes = len(records.classes)
    if ":" in name:
        blueprint = Blueprint(name, arguments, records.classes)
        return blueprint.build(), blueprint
    if name not in NETWORKS:
        if "/" not in name and not Path(name).is_dir():
            raise ModelError(f"there is no model '{name}'. {did_you_mean(name, NETWORKS)} Or give a Hugging Face name.")
        folder, source = huggingface.located(name)
        classifier = _wrapper(folder).load(str(folder), classes or 1)
        if classes:
            _name_classes(classifier, records.classes)
        return classifier, Blueprint(source, classes=records.classes)
    if records.regression and "classes" in arguments:
        raise ModelError("the labels are numbers to predict, which have no classes: leave 'classes' out.")
    left_out = {*but}
    inputs, labels = records.fetch(torch.tensor([i for i in range(len(records)) if i not in left_out][:5000]))
    known = {**({"classes": classes} if classes else {}), **_extent(name, inputs)}
    for what, number in known.items():
        if arguments.get(what, number) != number:
            raise ModelError(f"the data has {number} {what}, not {given(arguments[what])}: leave '{what}' out.")
    blueprint = Blueprint(name, {**known, **arguments}, records.classes)
    model = blueprint.build()
    for module in model.modules():
        if isinstance(module, Normalize):
            module.measure(inputs)
        if isinstance(module, Regressor):
            module.measure(labels)
    return model, blueprint


def _extent(name: str, inputs: Inputs) -> dict[str, int]:
    """Return the channels of images or the features of rows; refuse a network that is not for such data."""
    dimensions = inputs.dim() if isinstance(inputs, Tensor) else 0
    for what, needs, argument, networks in _TAKES:
        if dimensions == needs and name in networks:
            return {argument: int(inputs.shape[1])}
        if dimensions == needs:
            raise ModelError(f"'{name}' does not take {what}, which the data holds. What does: {listed(networks)}.")
    raise ModelError(f"'{name}' does not take such data: name a Hugging Face model, or your own, as module:factory.")


_TAKES = (("images", 4, "channels", IMAGE_NETWORKS), ("rows of numbers", 2, "features", TABLE_NETWORKS))


def load(folder: str | Path, factory: str | None = None, device: torch.device = _CPU) -> tuple[nn.Module, Blueprint]:
    """Load the model in a folder, or a Hugging Face classifier by name; each of many processes reads its part.

    A folder whose model is built by someone's code is loaded only if that code is named as `factory`: a file that one
    was sent must not decide what runs.
    """
    folder = Path(folder).expanduser()
    if folder.suffix in checkpoints.SUFFIXES and not folder.is_dir():
        return _from_file(folder, _of_code(folder, factory), device)
    if huggingface.on_hub(str(folder)):
        there, source = huggingface.located(str(folder))
        classifier = _wrapper(there).opened(there, device)
        return classifier, Blueprint(source, classes=_class_names(classifier, there))
    config = _config(folder)
    files_of(folder)
    if "checkpoint" in config:
        return _from_file(folder / _file_name(folder, config), _blueprint(folder, config, factory), device)
    _refuse_pickles(folder)
    if "model_type" in config:
        classifier = _wrapper(folder).opened(folder, device)
        return classifier, Blueprint(str(folder), classes=_class_names(classifier, folder))
    blueprint = _blueprint(folder, config, factory)
    with meta_device():
        model = blueprint.build()
    model = shard(model, device)
    try:
        missing, unexpected = load_weights(model, [folder / WEIGHTS])
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{folder / WEIGHTS} is not a readable safetensors file: {error}.") from None
    except ModelError as error:
        raise ModelError(f"the weights in {folder} do not fit its config.json: {error}") from None
    if missing or unexpected:
        what = f"{'missing' if missing else 'unexpected'}: {listed(sorted(missing or unexpected), 3)}"
        raise ModelError(f"the weights in {folder} do not fit its config.json; {what}.")
    require_finite(model, folder)
    return model, blueprint


def save(model: nn.Module, blueprint: Blueprint, folder: Path) -> None:
    """Write the model in the format it came in."""
    on_rank_0(lambda: folder.mkdir(parents=True))
    if isinstance(model, HuggingFaceModel):
        model.save(folder)
        return
    config = {"model": blueprint.name, "arguments": dict(blueprint.arguments), "classes": list(blueprint.classes)}
    if blueprint.checkpoint:
        config["checkpoint"] = blueprint.checkpoint.name
    on_rank_0(lambda: (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n"))
    if blueprint.checkpoint:
        checkpoints.save(model, blueprint.checkpoint, folder)
    else:
        save_weights(model, folder / WEIGHTS)


def fingerprint(model: nn.Module) -> str:
    """Compute a hash of the weights."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(full(value).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _from_file(path: Path, blueprint: Blueprint, device: torch.device) -> tuple[nn.Module, Blueprint]:
    """Load a model whose weights are in a PyTorch file."""
    with meta_device():
        model = blueprint.build()
    model = shard(model, device)
    found = checkpoints.load(model, path)
    require_finite(model, path)
    return model, replace(blueprint, checkpoint=found)


def _of_code(path: Path, factory: str | None) -> Blueprint:
    """Return the blueprint of a model that the user's code builds."""
    if not factory:
        raise ModelError(f"{path} holds weights alone: name the code that builds the model, --factory my.module:Net")
    return Blueprint(factory)


def _file_name(folder: Path, config: Mapping[str, Any]) -> str:
    """Return the name of the PyTorch file in a model folder."""
    name = config["checkpoint"]
    if not isinstance(name, str) or name != os.path.basename(name) or Path(name).suffix not in checkpoints.SUFFIXES:
        raise ModelError(f"{folder / 'config.json'} is damaged: 'checkpoint' is {given(name)}, not a file beside it.")
    return name


def _config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelError(f"there is no model folder '{folder}'.")
    if not (folder / "config.json").exists():
        raise ModelError(f"{folder} is not a model folder: it has no config.json.")
    return read_config(folder / "config.json")


def _blueprint(folder: Path, config: dict[str, Any], factory: str | None) -> Blueprint:
    name, arguments = config.get("model"), config.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ModelError(f"{folder / 'config.json'} names no known 'model'.")
    if ":" in name and name != factory:
        raise ModelError(f"{folder} is built by the code '{name}'. If you trust it, name it: --factory {name}")
    if ":" not in name and name not in NETWORKS:
        raise ModelError(f"{folder / 'config.json'} asks for the model '{name}'. {did_you_mean(name, NETWORKS)}")
    classes = config.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
        raise ModelError(f"{folder / 'config.json'} is damaged: 'classes' is not a list of names.")
    return Blueprint(name, arguments, tuple(classes))


def kind_of(model: str) -> Kind | None:
    """Return the kind of data that a model takes, by its name, where that says so; else the data itself does."""
    if ":" in model or model in NETWORKS or ("/" not in model and not Path(model).is_dir()):
        return None
    folder, _ = huggingface.located(model)
    return _wrapper(folder).kind_of(folder)


def _wrapper(folder: Path) -> type[HuggingFaceModel]:
    """Return the class for the Hugging Face model in a folder."""
    built = _config(folder).get("architectures")
    texts = isinstance(built, list) and any(str(name).endswith("ForSequenceClassification") for name in built)
    return TextClassifier if texts else ImageClassifier


def _class_names(classifier: HuggingFaceModel, folder: Path) -> tuple[str, ...]:
    """Return the names of a Hugging Face classifier's outputs, in their order."""
    stored = _config(folder)
    require_agreement(stored.get("id2label"), stored.get("label2id"), folder / "config.json")
    known = classifier.model.config.id2label
    return tuple(str(known.get(number, f"LABEL_{number}")) for number in range(len(known)))


def _name_classes(classifier: HuggingFaceModel, classes: Sequence[str]) -> None:
    """Write the names of the data's classes into the configuration of a classifier that is trained on them."""
    config = classifier.model.config
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: number for number, name in enumerate(classes)}


def _refuse_pickles(folder: Path) -> None:
    """Refuse weights that are missing, or are a pickle under whatever name."""
    weights = folder / WEIGHTS
    if not weights.exists() and not any(folder.glob("*.safetensors")):
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in _PICKLES)
        found = ""
        if pickles:
            found = f"; {pickles[0]} is a pickle, which can run code when loaded: convert it to safetensors"
            if Path(pickles[0]).suffix in checkpoints.SUFFIXES:
                found += ", or name that file, and with --factory the code that builds the model"
        raise ModelError(f"{folder} has no {WEIGHTS}{found}.")
    if weights.is_file():
        with weights.open("rb") as file:
            start = file.read(9)  # a safetensors file: the length of its header, then the header, which is JSON
        if start[8:] != b"{" and start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
            raise ModelError(
                f"{weights} is a pickle under another name, which can run code when loaded; it is refused."
            )

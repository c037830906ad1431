"""The command `scrub` for Python, and the run that it returns: the same work, the same files."""

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from . import runs, tasks
from .choices import REFUSE
from .data.problem import Log, ignore
from .errors import SettingError, did_you_mean
from .evidence.pack import write_pack
from .methods import METHODS, Method
from .report.output import write_report
from .runs.audit import Audit
from .runs.place import Place
from .runs.scrub import scrub as scrub_model

# What a request may say besides what to forget, and what it says otherwise: the options of the command.
_REQUEST: dict[str, Any] = {
    "data": None,
    "data_set": (),
    "label": None,
    "key": None,
    "missing": REFUSE,
    "split_seed": 0,
    "unseen": 0.2,
    "labels": None,
    "untrained": False,
    "anchor": None,
    "erase": (),
}


class Run(runs.Run):
    """A finished run in a folder: what was done is `record`, what it is worth `result`."""

    @classmethod
    def read(cls, folder: str | Path) -> "Run":
        """Read the run in a folder, whatever made it; refuse one that was changed."""
        return cls._of(runs.checked(Path(folder)))

    @classmethod
    def _of(cls, run: runs.Run) -> "Run":
        return cls(**{f.name: getattr(run, f.name) for f in fields(run)})

    def __repr__(self) -> str:
        verdict = self.result.scores.verdict
        said = "damaged" if self.damage else verdict.call if verdict else ""
        forgot = self.record["split"]["forget"] if self.record["verb"] == "scrub" else ""
        words = [self.method, *([f"of {forgot}"] if forgot else []), *([f"– {said}"] if said else [])]
        return f"<Run {str(self.folder)!r}: {' '.join(words)}>"

    @property
    def scores(self) -> Mapping[str, float]:
        """Return the scores by name."""
        return self.result.values()

    @property
    def model(self) -> Path:
        """Return the folder of the model, in the format that it came in."""
        return self.folder / "model"

    def evaluate(
        self,
        level: str = "standard",
        *,
        training: Mapping[str, Any] | None = None,
        factory: str | None = None,
        log: Log = ignore,
    ) -> "Run":
        """Look deeper, as `scissorhands evaluate RUN --level LEVEL`, and return the run with what was found.

        `training` says how reference models are trained, if not as the model was.
        """
        tasks.require_level(level, tasks.find(str(self.folder)), str(self.folder))
        with runs.locked(self.folder):
            device = Place(self.folder).torch_device()
            return self._of(Audit(runs.checked(self.folder), level, {}, training or {}, factory, device).carry_out(log))

    def report(self, output: str | Path = "report.html", *, pictures: bool = False) -> Path:
        """Write its page, or its table by the ending, as `scissorhands report RUN`, and return where that is."""
        write_report([self.folder], Path(output), f"Report of {self.folder.name}", pictures=pictures)
        return Path(output)

    def evidence(
        self,
        output: str | Path = "evidence.zip",
        *,
        policy: str | Path | None = None,
        key: str | Path | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Write its evidence, as `scissorhands evidence RUN`, and return the lines of the policy that it breaks."""
        files = {"policy": Path(policy) if policy else None, "key": Path(key) if key else None}
        return write_pack(self.folder, Path(output), overwrite=overwrite, **files)


def scrub(
    model: str | Path,
    forget: str,
    output: str | Path,
    *,
    method: str | Method = "scissorhands",
    settings: Mapping[str, Any] | None = None,
    factory: str | None = None,
    seed: int = 0,
    device: str = "auto",
    overwrite: bool = False,
    who: bool = False,
    log: Log = ignore,
    **request: Any,
) -> Run:
    """Make the model in a folder or a file forget, as `scissorhands scrub`, and return the run in the folder `output`.

    `method` is a name with its `settings`, or a method such as `FineTune(lr=0.01)`. What else the request says has the
    names of the command's options: `data="photos"`, `key="customer"`, `labels="lorry=truck"`, `missing="skip"`.
    """
    source, task = str(model), tasks.find(str(model))
    name, values = _named(method, settings or {})
    for option in request:
        if option not in _REQUEST:
            raise SettingError(f"scrub has no option '{option}'. {did_you_mean(option, [*_REQUEST])}")
        if option not in task.options:
            others = [other for other in tasks.TASKS if option in other.options]
            raise SettingError(tasks.only_for(f"'{option}'", others, task, source))
    asked = task.asks.from_options({**_REQUEST, **request, "forget": forget})
    command = _command(source, forget, output, name, values, request)
    place = Place.make(
        {"folder": Path(output), "seed": seed, "device": device, "overwrite": overwrite, "who": who, "command": command}
    )
    return Run._of(scrub_model(source, asked, name, values, place, factory, log=log))


def _named(method: str | Method, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a method, and its settings."""
    if isinstance(method, str):
        return method, dict(settings)
    if settings:
        raise SettingError("a method that is an object has its own settings: leave out 'settings'.")
    kind = type(method)
    known = {other: name for name, other in METHODS.items()}
    return known.get(kind, f"{kind.__module__}:{kind.__qualname__}"), method.to_dict()


def _command(
    source: str, forget: str, output: str | Path, method: str, values: Mapping[str, Any], request: Mapping[str, Any]
) -> str:
    """Return the command that does the same."""
    words = ["scissorhands", "scrub", source, "--forget", forget, "--method", method]
    for name, value in values.items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    for name, value in request.items():
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option] if one is True else [option, str(one)] if one not in (None, False) else []
    return shlex.join([*words, "-o", str(output)])

"""Serve all open requests of a ledger at once: one scrub, one evaluation, one pack."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import runs
from ..data.problem import Log, ignore
from ..distributed import on_rank_0, rank
from ..errors import RunError, StoppedError
from ..evidence.pack import hash_of, pack
from ..files import private_folder, read_json, write_text
from ..runs import Run
from ..runs.lock import lock
from ..runs.place import Place, now
from ..runs.resume import resume
from ..runs.scrub import scrub
from ..runs.seals import model_files
from ..verify.chain import LEDGER, SERVED, Entry
from .ledger import OPEN, Ledger, Request
from .retraining import drift, require_excluded

# Beside the ledger: what is being served, with all its keys, until the ledger says that it was.
_SERVING, _ABOUT, _ALL_KEYS = "serving", "about.json", "keys.txt"


@dataclass(frozen=True)
class Batch:
    """Requests that are served together, and the run that serves them; `begun` if it goes on with that."""

    requests: tuple[Request, ...]
    folder: Path
    source: str
    origin: str  # the model as it was trained; empty if it is not at hand
    base: str  # a hash of that
    begun: bool
    new: bool  # whether it is another model than the one that was served before

    @property
    def forget(self) -> str:
        """Return what to forget, as a text."""
        return f"keys:{self.folder.parents[1] / _SERVING / _ALL_KEYS}"

    @property
    def pack(self) -> Path:
        """Return where the evidence goes."""
        return self.folder.parents[1] / "packs" / f"{self.folder.name}.zip"


@dataclass(frozen=True)
class Scrubbing:
    """How requests are served: by which method, where, and what the model and its data need to be loaded.

    `ask` makes a request to the model of a text that says what to forget; `evaluate` looks deeper at the run.
    """

    ask: Callable[[str], Any]
    method: str
    settings: Mapping[str, Any]
    place: Callable[[Path], Place]
    evaluate: Callable[[Run], Run]
    factory: str | None = None

    def carry_out(self, batch: Batch, log: Log) -> Run:
        """Scrub, or go on with a scrub that was begun, and evaluate unless the model is damaged."""
        if batch.begun:
            self._require_same(batch.folder)
            done = runs.is_run(batch.folder)
            run = runs.read(batch.folder) if done else resume("scrub", batch.folder, self.factory, self.method, log)
        else:
            asked, place = self.ask(batch.forget), self.place(batch.folder)
            run = scrub(batch.source, asked, self.method, self.settings, place, self.factory, log=log)
        return run if run.damage else self.evaluate(run)

    def _require_same(self, folder: Path) -> None:
        """Refuse to go on with a run by another method, with other settings or from another seed."""
        about = runs.read(folder).record if runs.is_run(folder) else runs.begun(runs.unfinished(folder))
        known = (
            about["method"] if isinstance(about["method"], Mapping) else {"name": about["method"], **about["settings"]}
        )
        begun = {**known, "method": known["name"], "seed": about["seed"]}
        for name, value in {"method": self.method, **self.settings, "seed": self.place(folder).seed}.items():
            if begun.get(name) != value:
                said = f"'{name}' was {begun.get(name)!r}, and is {value!r} now"
                raise RunError(
                    f"{folder} was begun otherwise: {said}. Give the same command, or --overwrite to start over."
                )


@contextmanager
def serving(ledger: Ledger, model: str, overwrite: bool) -> Iterator[Batch | None]:
    """Give what is to be served by a model, None if nothing is open; meanwhile no other process serves the ledger.

    A run that was begun and not finished, or not yet entered in the ledger, is gone on with, and what was added since
    waits; with `overwrite` it is begun anew.
    """
    ledger.require()
    held = on_rank_0(lambda: lock(ledger.folder, f"{ledger.folder} is being served by another process."))
    try:
        yield on_rank_0(lambda: _batch(ledger, model, overwrite))
    finally:
        if rank() == 0:
            os.close(held)


def serve(
    ledger: Ledger, batch: Batch, how: Scrubbing, policy: Path | None, key: Path | None, log: Log = ignore
) -> tuple[Run, list[str]]:
    """Serve a batch; return the run and the lines of the policy that it breaks.

    Requests stay open if the model is damaged. Whenever this is killed, it is gone on with.
    """
    try:
        run = how.carry_out(batch, log)
    except StoppedError as error:
        raise StoppedError("interrupted; the same command goes on.", error.exit_code) from None
    if run.damage:
        return run, []
    served = [entry for entry in ledger.entries() if entry["event"] == SERVED and entry["base"] == batch.base]
    moved = drift(run, batch.origin, how.factory, served)
    return run, on_rank_0(lambda: _enter(ledger, batch, run, moved, policy, key))


def close(ledger: Ledger, names: Sequence[str], note: str, withdrawn: bool) -> None:
    """Close requests, and remove the keys that were gathered to serve them unless a run goes on with these."""
    ledger.close(names, note, withdrawn)
    room = ledger.folder / _SERVING
    try:
        held = lock(ledger.folder, "")
    except RunError:  # another process serves them now, and removes the keys at its end
        return
    try:
        about = read_json(room / _ABOUT, dict) if (room / _ABOUT).exists() else {}
        waiting = {name for name, one in ledger.requests().items() if one.state == OPEN}
        if not (_good(ledger.folder / "runs" / str(about.get("run"))) and waiting & {*about.get("requests", ())}):
            _discard(ledger, str(about.get("run")))
    finally:
        os.close(held)


def _discard(ledger: Ledger, run: str) -> None:
    """Remove what was gathered to serve requests by a run; and the pack of that, unless it is in the ledger already."""
    if f"runs/{run}" not in [entry.get("run") for entry in ledger.entries()]:
        (ledger.folder / "packs" / f"{run}.zip").unlink(missing_ok=True)
    shutil.rmtree(ledger.folder / _SERVING, ignore_errors=True)


def _good(folder: Path) -> bool:
    """Tell whether a run can be gone on with, or entered in the ledger."""
    return runs.resumable(folder) or (runs.is_run(folder) and not runs.read(folder).damage)


def _batch(ledger: Ledger, model: str, overwrite: bool) -> Batch | None:
    """Choose what is served, and write that down, for its owner alone."""
    entries, room = ledger.entries(), ledger.folder.absolute() / _SERVING
    served = [entry for entry in entries if entry["event"] == SERVED]
    folder = ledger.folder.absolute() / "runs" / f"{len(served) + 1:03}"
    waiting = {name: one for name, one in ledger.requests().items() if one.state == OPEN}
    source, origin, base = _source(ledger, model, served[-1] if served else {})
    new = bool(served) and base != served[-1]["base"]
    about = read_json(room / _ABOUT, dict) if (room / _ABOUT).exists() else {}
    runs.finish(folder)
    if _good(folder) and about.get("run") == folder.name and about.get("base") == base and not overwrite:
        chosen = tuple(waiting[name] for name in about["requests"] if name in waiting)
        if chosen:
            return Batch(chosen, folder, source, origin, base, begun=True, new=new)
    _discard(ledger, str(about.get("run")))
    if not waiting:
        return None
    if (pack := ledger.folder / "packs" / f"{folder.name}.zip").exists():
        raise RunError(f"{ledger.folder / LEDGER} does not list {pack}: its end was cut off. Restore it from a copy.")
    keys = [f"request {name}\t{key}" for name, one in waiting.items() for key in ledger.keys(one)]
    private_folder(room)
    private_folder(folder.parent)
    write_text(room / _ALL_KEYS, "".join(f"{key}\n" for key in keys), private=True)
    write_text(room / _ABOUT, json.dumps({"run": folder.name, "requests": [*waiting], "base": base}), private=True)
    return Batch(tuple(waiting.values()), folder, source, origin, base, begun=False, new=new)


def _source(ledger: Ledger, model: str, last: Entry) -> tuple[str, str, str]:
    """Return the model to scrub, the one that it began as, and a hash of that.

    A model that was scrubbed for the ledger before is gone on from, so that what it forgot stays forgotten.
    """
    there = ledger.folder / str(last.get("run", ""))
    own = Path(model).resolve().is_relative_to((ledger.folder / "runs").resolve())
    files = model_files(Path(model)) if Path(model).exists() and not own else {}
    base = hashlib.sha256(json.dumps(files or model, sort_keys=True).encode()).hexdigest()
    if own and (not last or Path(model).resolve() != there.resolve()):
        raise RunError(f"{model} is not the run that served the ledger last. Name the model that it began as.")
    if last and (own or base == last["base"]):
        if not runs.is_run(there):
            raise RunError(f"{there} served requests before and is missing: restore it, or train the model again.")
        return str(there), "" if own else model, str(last["base"])
    if last:
        require_excluded(ledger, Path(model))
    return model, model, base


def _enter(
    ledger: Ledger, batch: Batch, run: Run, moved: Mapping[str, Any], policy: Path | None, key: Path | None
) -> list[str]:
    """Write the pack, and enter into the ledger that the requests were served."""
    names = ("request", "received", "due", "added", "keys")
    asked = [{name: one.entry[name] for name in names} | {"entry": one.entry["hash"]} for one in batch.requests]
    entries = ledger.entries()
    until = {"entries": len(entries), "head": entries[-1]["hash"]}
    private_folder(batch.pack.parent)
    broken = pack(run.folder, batch.pack, policy=policy, key=key, requests=asked, ledger=until, drift=moved)
    ledger.record(
        {
            "event": SERVED,
            SERVED: now(),
            "requests": [one.name for one in batch.requests],
            "run": f"runs/{run.folder.name}",
            "pack": hash_of(batch.pack),
            "base": batch.base,
            "records": run.result.scores.counts["forget"],
            "drift": moved,
        }
    )
    shutil.rmtree(ledger.folder / _SERVING)
    return broken

"""A ledger of deletion requests: a folder that says who asked for what and when, without naming anybody.

ledger.jsonl has a line for each event, chained by hashes; it is only ever added to. It holds salted hashes of keys; the
salt is in a file of its own. `keys` has the keys of each request, which the next training must leave out, too.
"""

import hmac
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from ..data.records import one_line
from ..errors import ReadError, RunError, SettingError, listed
from ..files import private_folder, read_text, write_text
from ..runs.place import now
from ..verify.chain import ADDED, CLOSED, ID, LEDGER, SERVED, Entry, line, linked, read_chain

OPEN, LATE = "open", "late"
_SALT, _KEYS, _LOCK = "salt", "keys", ".lock"
_OWN = re.compile(r"salt|keys|\.lock|\.salt\..*|\.ledger\.jsonl\..*")  # what is there before the first request is


@dataclass(frozen=True)
class Request:
    """A request, as the ledger has it; `entry` is the line that added it.

    One that was `withdrawn` asks for nothing any more.
    """

    name: str
    state: str
    entry: Entry
    run: str = ""
    withdrawn: bool = False

    @property
    def late(self) -> bool:
        """Return whether it is open though it was due."""
        return self.state == OPEN and str(self.entry["due"]) < now()[:10]

    def row(self) -> dict[str, Any]:
        """Return what a list of requests shows."""
        about = {name: str(self.entry[name]) for name in ("received", "due")}
        state = LATE if self.late else self.state
        return {"request": self.name, **about, "keys": len(self.entry["keys"]), "state": state, "run": self.run or "–"}


class Ledger:
    """A folder of deletion requests for one model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def require(self) -> None:
        """Refuse a folder that is no ledger."""
        if not (self.folder / LEDGER).is_file():
            raise RunError(f"{self.folder} is not a ledger: it has no {LEDGER}. 'scissorhands request add' makes one.")

    def entries(self) -> list[Entry]:
        """Read all lines; refuse a ledger that was changed."""
        path = self.folder / LEDGER
        if not path.exists():
            return []
        entries, faults = read_chain(read_text(path))
        if not entries and not faults:
            faults = ["it is empty"]
        if faults:
            raise RunError(f"{path} was changed: {faults[0]}. Restore it from a copy.")
        return entries

    def requests(self) -> dict[str, Request]:
        """Return all requests by name, in the order in which they were added."""
        return _folded(self.entries())

    def add(self, keys: Sequence[str], name: str, received: str, due: str, note: str) -> str:
        """Add a request for the records that these keys name, and return its name; `due` may be a time from receipt."""
        found = list(dict.fromkeys(filter(None, (one_line(key.strip()) for key in keys))))
        if not found:
            raise SettingError("the request names no record: its list of keys is empty.")
        if name and not ID.fullmatch(name):
            raise SettingError(f"'{name}' cannot name a request: use up to 64 letters, digits, dots, dashes and _.")
        came = day(received) if received else date.fromisoformat(now()[:10])
        until = came + timedelta(days=int(due[1:-1])) if re.fullmatch(r"\+\d{1,4}d", due) else day(due)
        if came.isoformat() > now()[:10]:
            raise SettingError(f"a request cannot have been received on {came}, which is still to come.")
        if until < came:
            raise SettingError(f"a request that was received on {came} cannot have been due on {until}.")
        self._make()
        with self._locked():
            entries = self.entries()
            known = _folded(entries)
            if name in known:
                raise RunError(f"the ledger has a request '{name}' already. Give another --id.")
            name = name or next(str(n) for n in range(len(known) + 1, 2 * len(known) + 2) if str(n) not in known)
            days = {"received": came.isoformat(), "due": until.isoformat()}
            hashes = [self.hash_of(key) for key in found]
            write_text(self._keys_of(name), "".join(f"{key}\n" for key in found), private=True, flushed=True)
            added = {"event": ADDED, ADDED: now(), "request": name, **days, "keys": hashes, "note": note}
            self._append(entries, added)
        return name

    def close(self, names: Sequence[str], note: str, withdrawn: bool) -> None:
        """Close requests: those that were served, or, with a reason, those that never will be.

        The next training leaves their records out all the same, unless they were `withdrawn`.
        """
        self.require()
        with self._locked():
            entries = self.entries()
            known = _folded(entries)
            for name in names:
                if name not in known:
                    raise RunError(f"the ledger has no request '{name}'. Known: {listed(known) or 'none'}.")
                if known[name].state == CLOSED:
                    raise RunError(f"request '{name}' is closed already.")
                if known[name].state == OPEN and not note:
                    raise RunError(f"request '{name}' was not served. Say with --note why it is closed all the same.")
                if known[name].state == SERVED and withdrawn:
                    raise RunError(f"request '{name}' was served, so it cannot be withdrawn any more.")
            closed = {"event": CLOSED, CLOSED: now(), "requests": list(dict.fromkeys(names)), "note": note}
            self._append(entries, {**closed, "withdrawn": withdrawn})

    def record(self, entry: Mapping[str, Any]) -> None:
        """Add a line."""
        with self._locked():
            self._append(self.entries(), entry)

    def keys(self, request: Request) -> list[str]:
        """Return the keys of a request; refuse those that are not the ones that were asked for."""
        path = self._keys_of(request.name)
        found = read_text(path).split("\n")[:-1]
        if [self.hash_of(key) for key in found] != request.entry["keys"]:
            raise RunError(
                f"{path} was changed: it does not hold the keys that were asked for. Restore it from a copy."
            )
        return found

    def has_keys(self, request: Request) -> bool:
        """Return whether the keys of a request are there; of one that is not open somebody may have removed them."""
        return self._keys_of(request.name).exists()

    def hash_of(self, key: str) -> str:
        """Return the hash of a key, which nobody can compute without the salt."""
        return hmac.new(self._salt, key.encode(), "sha256").hexdigest()

    @cached_property
    def _salt(self) -> bytes:
        try:
            return bytes.fromhex(read_text(self.folder / _SALT).strip())
        except ValueError:
            raise ReadError(f"{self.folder / _SALT} cannot be read: it is not the salt of a ledger.") from None

    def _keys_of(self, name: str) -> Path:
        return self.folder / _KEYS / f"{name}.txt"

    def _make(self) -> None:
        """Make the folder if it is not there; refuse one that holds something else."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder} is not a ledger: it is a file. Name a new folder.")
        inside = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        if LEDGER not in inside and (other := [name for name in inside if not _OWN.fullmatch(name)]):
            raise RunError(f"{self.folder} is not a ledger: it holds '{other[0]}'. Name a new folder.")
        private_folder(self.folder)
        private_folder(self.folder / _KEYS)
        with self._locked():
            if not (self.folder / _SALT).exists():
                if LEDGER in inside:
                    raise RunError(f"{self.folder / _SALT} is missing: restore it, or keys cannot be compared.")
                write_text(self.folder / _SALT, secrets.token_hex(32) + "\n", private=True, flushed=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time write, and the others wait."""
        with FileLock(self.folder / _LOCK):
            yield

    def _append(self, entries: Sequence[Entry], entry: Mapping[str, Any]) -> None:
        """Add a line, and remove the keys of what was withdrawn, and of what was never added."""
        lines = [*entries, linked(entry, entries[-1]["hash"] if entries else "")]
        write_text(self.folder / LEDGER, "".join(map(line, lines)), private=True, flushed=True)
        kept = {self._keys_of(name) for name, one in _folded(lines).items() if not one.withdrawn}
        for path in (self.folder / _KEYS).iterdir():
            if path not in kept:
                path.unlink()


def _folded(entries: Sequence[Entry]) -> dict[str, Request]:
    """Return the requests that some lines tell of."""
    found: dict[str, Request] = {}
    for entry in entries:
        if entry["event"] == ADDED:
            found[entry["request"]] = Request(entry["request"], OPEN, entry)
        for name in entry.get("requests", ()):
            run, withdrawn = str(entry.get("run", found[name].run)), entry.get("withdrawn") is True
            found[name] = Request(name, str(entry["event"]), found[name].entry, run, withdrawn)
    return found


def day(text: str) -> date:
    """Read a date.

    >>> print(day("2026-02-03"))
    2026-02-03
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SettingError(f"'{text}' is not a date, such as 2026-02-03; a time from receipt is +30d.") from None

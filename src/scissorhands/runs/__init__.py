"""A run folder: write, lock, resume, read; and the verbs as functions of folders."""

from .atomic import finish, writing
from .checking import checked
from .journal import Journal
from .layout import BEGUN, FLAGGED, GRIDS, LOG, PICTURES, ROWS, from_there, is_run
from .lock import locked
from .pending import again, begin, begun, resumable, unfinished
from .reader import read, read_outputs, reference_unchanged, scores_hash, with_reference
from .result import Result, Run
from .writer import write_outputs, write_record, write_result

__all__ = [
    "BEGUN",
    "FLAGGED",
    "GRIDS",
    "LOG",
    "PICTURES",
    "ROWS",
    "Journal",
    "Result",
    "Run",
    "again",
    "begin",
    "begun",
    "checked",
    "finish",
    "from_there",
    "is_run",
    "locked",
    "read",
    "read_outputs",
    "reference_unchanged",
    "resumable",
    "scores_hash",
    "unfinished",
    "with_reference",
    "write_outputs",
    "write_record",
    "write_result",
    "writing",
]

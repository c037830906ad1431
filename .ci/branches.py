"""Fail if the tests took fewer branches of the package than a floor, in percent: branches.py COVERAGE.json FLOOR.

slipcover's own --fail-under mixes lines with branches, and removes what pytest's workers counted before it is written.
"""

import json
import sys
from pathlib import Path

summary = json.loads(Path(sys.argv[1]).read_text())["summary"]
taken, missed = summary["covered_branches"], summary["missing_branches"]
percent = 100 * taken / (taken + missed)
said = f"{taken} of {taken + missed} branches, {percent:.1f} %, with a floor of {sys.argv[2]} %"
if percent < float(sys.argv[2]):
    sys.exit(f"too few branches are tested: {said}")
sys.stdout.write(f"tested: {said}\n")

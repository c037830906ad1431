"""What the model card of a pack says of its other files, so that a card which says otherwise is found."""

import json
from collections.abc import Mapping
from typing import Any

from .findings import Findings

CARD = "README.md"
LISTS = ("run.toml", "forget.txt", "before.txt", "inventory.json")  # files of a run that belong to no model


def check_card(
    card: str, statement: Mapping[str, Any], record: Mapping[str, Any], scores: Mapping[str, Any], found: Findings
) -> None:
    """Find on the card of a pack what its other files say."""
    there = {*card.splitlines()}
    told = [line for lines in facts_told(statement, record, scores).values() for line in lines]
    faults = [f"{CARD} does not say what the other files say: {line.strip()}" for line in told if line not in there]
    found.check_all(faults, f"{CARD} says what the other files say, in {len(told)} lines")


def facts_told(
    statement: Mapping[str, Any], record: Mapping[str, Any], scores: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the lines of a card that follow from the other files, by what they are about."""
    values, counts, verdict, tests = scores["values"], scores["counts"], scores.get("verdict"), statement["tests"]
    before = {name: record[f"{name}_before"] for name in values if f"{name}_before" in record}
    files = {name.removeprefix("model/"): x for name, x in scores["files"].items() if name not in LISTS}
    known = record.get("source_files", {})
    return {
        "metrics": [
            f"          - {{type: {quoted(one['name'])}, name: {quoted(one['title'])}, value: {one['value']}}}"
            for one in tests
        ],
        "done": [
            f"This model was made to forget **{counts['forget']} records** by the method `{record['method']['name']}`.",
            f"That ended at {record['finished']}; this evidence was gathered at {statement['packed']}.",
        ],
        "verdict": [f"**Verdict: {verdict['call']}.** {cell(verdict['reason'])}"] if verdict else [],
        "requests": [
            f"| {cell(one['request'])} | {one['received']} | {one['due']} | {one['added']} | {len(one['keys'])} |"
            for one in statement["requests"]
        ],
        "files": [
            f"| {cell(name)} | {known.get(name, '').split(' ')[-1]} | {x.split(' ')[-1]} |" for name, x in files.items()
        ],
        "before": [
            f"| {cell(one['title'])} | {before[one['name']]:.2f} | {one['value']:.2f} |"
            for one in tests
            if one["name"] in before
        ],
        "tests": [
            f"| {cell(one['title'])} | {one['value']:.3f} | {cell(one['expected'])} | {cell(one['meaning'])} "
            f"| {cell(one['misleads'])} |"
            for one in tests
        ],
    }


def quoted(value: object) -> str:
    """Return a text as YAML reads it back, which reads JSON."""
    return json.dumps(str(value))


def cell(value: object) -> str:
    """Return a text that fits into a cell of a Markdown table.

    >>> cell("a | b")
    'a \\\\| b'
    """
    return " ".join(str(value).split()).replace("|", "\\|")

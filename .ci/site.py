"""What the site has besides docs/: the README and other pages of the repository, recipes and examples, and their links.

MkDocs calls these functions (`hooks` in mkdocs.yml).
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Where a page of the repository is on the site; docs/NAME is NAME.
PAGES = {
    "README.md": "index.md",
    "results/README.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LISTED = {"recipes": "toml", "examples": "py"}
_TEXT = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#\s]+)(?:#[^)\s]*)?\)")


def place(path: str) -> str:
    """Return where a file of the repository is on the site; empty if it is not there."""
    folder, _, name = path.rstrip("/").rpartition("/")
    if path in PAGES:
        return PAGES[path]
    if folder in LISTED and name.endswith(f".{LISTED[folder]}"):
        return f"{folder}/{Path(name).stem}.md"
    if path.rstrip("/") == "recipes":
        return "recipes.md"
    return path.removeprefix("docs/") if folder == "docs" else ""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for path, there in PAGES.items():
        files.append(File.generated(config, there, content=_linked((ROOT / path).read_text(), path)))
    for folder, ending in LISTED.items():
        for file in sorted((ROOT / folder).glob(f"*.{ending}")):
            page = f"# {file.name}\n\n```{ending if ending == 'toml' else 'python'}\n{file.read_text()}```\n"
            there = File.generated(config, f"{folder}/{file.stem}.md", content=page)
            there.inclusion = there.inclusion.NOT_IN_NAV
            files.append(there)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point the links of a page of docs/ to where things are on the site."""
    written = page.file.src_uri if (ROOT / "docs" / page.file.src_uri).is_file() else None
    return _linked(markdown, f"docs/{written}") if written else markdown


def _linked(markdown: str, path: str) -> str:
    """Return the text of a file with links that hold on the site; a link to what is not there becomes its text."""
    own = posixpath.dirname(place(path))

    def there(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        to = place(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        anchor = found[0].partition("#")[2]
        return f"[{text}]({posixpath.relpath(to, own or '.')}{'#' + anchor if anchor else ')'}" if to else text

    return _TEXT.sub(there, markdown)

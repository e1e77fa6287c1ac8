"""Finds links between the pages of the repository that lead to no file or heading; `make check` runs it.

The generated pages of the reference exist only on the site: other pages name them without a link, since readers of the
repository have no such file.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|\b(?:href|src)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z]+:|/")
INCLUDED = re.compile(r'^--8<-- "([^":]+)(?::(\w+))?"$', re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +\{#([\w-]+)\})?$", re.MULTILINE)


def find_anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    found = set()
    for heading, own in HEADING.findall(FENCED.sub("", INCLUDED.sub(include, text))):
        slug = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        found.add(own or re.sub(r"[-\s]+", "-", slug))
    return found


def include(found: re.Match[str]) -> str:
    """The text of an inclusion: a whole file, or the part between two marks."""
    path = next(folder / found[1] for folder in (ROOT / "docs", ROOT) if (folder / found[1]).is_file())
    text = path.read_text("utf-8")
    return text if found[2] is None else text.split(f"[start:{found[2]}]")[1].split(f"[end:{found[2]}]")[0]


def find_broken(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    text = page.read_text("utf-8")
    for link in LINK.finditer(FENCED.sub("", text)):
        target = link[1] or link[2]
        if ELSEWHERE.match(target):
            continue
        path, _, anchor = unquote(target).partition("#")
        place = page.parent / path if path else page
        is_page = place.suffix == ".md" and place.is_file()
        if not place.exists() or (anchor and is_page and anchor not in find_anchors(place.read_text("utf-8"))):
            yield target


def main() -> int:
    """Print each broken link as `page: link`; return 1 when there is one."""
    tracked = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True)  # noqa: S607
    pages = [ROOT / name for name in tracked.splitlines() if not name.startswith("app/samples/")]
    broken = [f"{page.relative_to(ROOT)}: {link}\n" for page in pages if page.exists() for link in find_broken(page)]
    sys.stdout.writelines(broken)
    return min(len(broken), 1)


if __name__ == "__main__":
    sys.exit(main())

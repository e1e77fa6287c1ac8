"""Find the forms that docs/development/words.md tells authors to avoid; run by `make check`."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
STYLE = "docs/development/words.md"
SUFFIXES = {".css", ".example", ".html", ".js", ".mako", ".md", ".py", ".sh", ".sql", ".svg", ".toml", ".ts", ".yml"}
NAMES = {"Dockerfile", "Makefile", "run"}
SAMPLES = ("app/samples/", "docs/prose.py")
"""Paths that are not checked: sample knowledge, and the forms of this program's own examples."""

GAP = r"[\s#*>|/]+(?:--\s+)?"
"""What may stand between two words: a form may continue on the next line of a comment."""
ROW = re.compile(r"^\| (?P<forms>[^|]+) \| (?P<write>[^|]+) \| (?P<allowed>[^|]*)\|$", re.MULTILINE)

Rule = tuple[re.Pattern[str], re.Pattern[str], str]


def pattern(forms: str) -> re.Pattern[str]:
    """Match any of the forms, which commas separate; `…` is any word."""
    phrases = [GAP.join(r"\w+" if w == "…" else re.escape(w) for w in form.split()) for form in forms.split(",")]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(phrases)})(?![\w-])" if forms.strip() else r"(?!)")


def read_rules(style: str) -> Iterator[Rule]:
    """Yield the forms to find, the forms to allow, and the advice, from the table of the style guide."""
    for row in list(ROW.finditer(style))[1:]:
        yield pattern(row["forms"]), pattern(row["allowed"]), row["write"]


def find_forms(text: str, rules: list[Rule]) -> Iterator[tuple[int, str, str]]:
    """Yield line, form and advice; an underscore is a space, so names are read as words."""
    words = text.lower().replace("_", " ")
    for forms, allowed, write in rules:
        exempt = [match.span() for match in allowed.finditer(words)]
        for match in forms.finditer(words):
            if not any(start < match.end() and match.start() < end for start, end in exempt):
                yield words.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), write


def main() -> int:
    """Print each place as `path:line: form → advice`; return 1 when there is one."""
    rules = list(read_rules((ROOT / STYLE).read_text("utf-8")))
    assert rules, f"{STYLE} has no table of words"
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)  # noqa: S607
    found = 0
    for name in tracked.splitlines():
        path = ROOT / name
        if not name.startswith(SAMPLES) and (path.suffix in SUFFIXES or path.name in NAMES) and path.exists():
            text = path.read_text("utf-8")
            for line, form, write in find_forms(ROW.sub("", text) if name == STYLE else text, rules):
                sys.stdout.write(f"{name}:{line}: {form} → {write}\n")
                found += 1
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())

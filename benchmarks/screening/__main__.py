"""Precision and recall of the flags of suspicious content: `python -m benchmarks.screening`, without a database."""

import argparse
import sys
from pathlib import Path

from app.cli.output.text import print_table
from app.documents.screening.screen import screen
from benchmarks.screening.scoring import count_kinds, find_flags, make_samples, score

SCORES = ("flag", "known forms", "recall", "other forms", "recall of others", "clean", "wrong", "precision")
KINDS = ("kind", "flag", "samples", "right")
READ = {".txt", ".md", ".rst", ".html", ".py", ".json", ".csv"}
MOST = 2_000_000
"""Bytes of a file that is read with `--folder`."""


def main() -> int:
    """Judge the samples and print the tables; with `--folder`, print the flags of real texts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening", description=__doc__.split(":")[0])
    parser.add_argument("--missed", action="store_true", help="print samples whose flags are not as expected")
    parser.add_argument("--folder", type=Path, help="list the files of a folder with flags instead")
    arguments = parser.parse_args()
    if arguments.folder:
        return _screen_folder(arguments.folder)
    judged = [(sample, find_flags(sample)) for sample in make_samples()]
    rows = [
        (
            flag,
            s.known,
            f"{s.recall:.3f}",
            s.unknown,
            f"{s.recall_of_others:.3f}",
            s.clean,
            s.wrong,
            f"{s.precision:.3f}",
        )
        for flag, s in score(judged).items()
    ]
    print_table(SCORES, rows, right=SCORES[1:])
    print()
    kinds = [
        (kind, (flag or "none") + ("" if known else ", other form"), total, right)
        for kind, (total, right, flag, known) in count_kinds(judged).items()
    ]
    print_table(KINDS, kinds, right=KINDS[2:])
    if arguments.missed:
        for sample, found in judged:
            if found != ({sample.flag} if sample.flag else set()):
                print(f"\n{sample.kind}: {sorted(found)}\n{sample.content!r}")
    return 0


def _screen_folder(folder: Path) -> int:
    read = flagged = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in READ and path.is_file() and path.stat().st_size < MOST:
            read += 1
            if flags := screen(path.read_text(errors="replace")):
                flagged += 1
                print(f"{path}: {', '.join(flags)}")
    print(f"{read:,} texts, {flagged:,} with flags")
    return 0


if __name__ == "__main__":
    sys.exit(main())

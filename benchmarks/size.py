"""What the packages of the image take on a disk: `python -m benchmarks.size` installs them in a new environment.

`--extra ocr` adds those of an image that recognises text.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTED = 5_000_000
"""Bytes from which a package has a line of its own."""
MEGABYTE = 1_000_000


def install(folder: Path, *lists: str) -> Path:
    """Install the pinned packages of some lists, the service and its client; returns where they are."""
    uv, python = Path(sys.executable).with_name("uv"), folder / "env/bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    for name in lists:
        locked = folder / f"{name}.lock"
        locked.write_text(run("awk", "-f", "requirements/locked.awk", f"requirements/{name}.txt", "requirements.lock"))
        run(
            uv,
            "pip",
            "install",
            "--python",
            python,
            "--compile-bytecode",
            "--no-deps",
            "--require-hashes",
            "-r",
            locked,
        )
    wheel = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder)
    run(*wheel, ".", "./clients/python")
    run(uv, "pip", "install", "--quiet", "--python", python, "--compile-bytecode", "--no-deps", *folder.glob("*.whl"))
    (place,) = (folder / "env/lib").glob("python*/site-packages")
    return place


def run(*command: str | Path) -> str:
    """The output of a command in the checkout."""
    return subprocess.run(list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603


def measure(place: Path) -> Counter[str]:
    """The bytes of the files of each package, with its compiled modules."""
    sizes: Counter[str] = Counter()
    for package in distributions(path=[str(place)]):
        files = {Path(str(file.locate())).resolve() for file in package.files or ()}
        compiled = {cached for file in files for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")}
        sizes[package.name] = sum(file.stat().st_size for file in files | compiled if file.is_file())
    return sizes


def describe(sizes: Counter[str]) -> str:
    """A table in Markdown, largest first."""
    large = [(name, size) for name, size in sizes.most_common() if size >= LISTED]
    others = sizes.total() - sum(size for _, size in large)
    rows = [
        *((f"`{name}`", size) for name, size in large),
        (f"{len(sizes) - len(large)} others", others),
        ("in all", sizes.total()),
    ]
    return "\n".join(
        ["| package | MB |", "|---|---:|", *(f"| {name} | {size / MEGABYTE:.0f} |" for name, size in rows)]
    )


def main() -> None:
    """Print the table."""
    lists = ("service", "ocr") if sys.argv[1:] == ["--extra", "ocr"] else ("service",)
    with tempfile.TemporaryDirectory() as folder:
        print(describe(measure(install(Path(folder), *lists))))


if __name__ == "__main__":
    main()

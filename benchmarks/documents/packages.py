"""Fetches files from the archive that this machine's apt knows, and keeps them under `build/documents`."""

import gzip
import shutil
import subprocess
from pathlib import Path

import pypdfium2

from benchmarks.documents.questions import DocumentFile
from benchmarks.place import ROOT

FETCHED = ROOT / "build" / "documents"
_PATIENCE = 120
_CHANGED = 0.02
"""Bytes by which a file without pages may differ: a security update does not move its sections."""


class Missing(Exception):
    """The file cannot be measured here; the text gives the reason."""


def fetch_file(file: DocumentFile) -> tuple[str, bytes]:
    """The name and the bytes of a file, unpacked if the package compresses it. Raises Missing."""
    folder = FETCHED / file.package
    if not (folder / file.path).is_file():
        _fetch_package(file.package, folder)
    if not (folder / file.path).is_file():
        raise Missing(f"the package {file.package} has no {file.path}")
    name, data = Path(file.path).name, (folder / file.path).read_bytes()
    if name.endswith(".gz"):
        name, data = name.removesuffix(".gz"), gzip.decompress(data)
    size = _count_pages(data) if name.endswith(".pdf") else len(data)
    if abs(size - file.size) > (0 if name.endswith(".pdf") else file.size * _CHANGED):
        raise Missing(
            f"{file.package} has another edition: {size:,} pages or bytes, the questions are about {file.size:,}"
        )
    return name, data


def _fetch_package(package: str, folder: Path) -> None:
    """Download and unpack a package without installing it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Missing("apt-get and dpkg-deb are needed")
    downloads = FETCHED / "downloads" / package
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir(parents=True)
    _run("apt-get", "download", "-q", package, folder=downloads)
    for archive in downloads.glob("*.deb"):
        _run("dpkg-deb", "-x", str(archive), str(folder), folder=downloads)
    shutil.rmtree(downloads)


def _run(*command: str, folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603  # apt and dpkg, without a shell
            command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]} failed: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Missing(f"{' '.join(command[:2])} failed: {reason}")


def _count_pages(data: bytes) -> int:
    with pypdfium2.PdfDocument(data) as document:
        return len(document)

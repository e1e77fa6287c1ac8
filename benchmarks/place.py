"""Where benchmark programs keep things between runs."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from app.settings import DatabaseSettings, Settings

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".bench"
COLLECTIONS = ROOT.parent / "shared" / "ir"
VECTORS = KEPT / "vectors"


def bench_settings() -> Settings:
    """Settings with an embedded database under `.bench/`, made anew when the migrations' text has changed.

    A migration that is still being written is edited in place, which Alembic does not notice.
    """
    data, mark = KEPT / "data", KEPT / "migrations.sha256"
    digest = hashlib.sha256()
    for path in sorted((ROOT / "alembic" / "versions").glob("*.py")):
        digest.update(path.read_bytes())
    current = digest.hexdigest()
    if not mark.exists() or mark.read_text(encoding="ascii") != current:
        shutil.rmtree(data, ignore_errors=True)
    KEPT.mkdir(exist_ok=True)
    mark.write_text(current, encoding="ascii")
    return Settings(database=DatabaseSettings(data_dir=data))

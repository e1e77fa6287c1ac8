"""What a full match would score is that of the language in which most words of the query are known."""

from __future__ import annotations

from typing import Any

from alembic import op

revision = "0015"
down_revision = "0014"

# Of all languages the dearest before: the stop words of a query in English are unknown words in German, each of the
# greatest weight, so that one German entry made every match in English look weak.
BEFORE = """
           (select max(l.weight) * 2.2 * 2 / (2 + 1.2)
              from (select sum(w.weight) as weight from words w group by w.language) l),
"""
AFTER = """
           (select sum(w.weight) * 2.2 * 2 / (2 + 1.2) from words w group by w.language
             order by count(*) filter (where w.frequency = 0), count(*) desc limit 1),
"""


def upgrade() -> None:
    released = _revision_0006()
    assert BEFORE in released.UP
    released._run_as_owner(released.UP.replace(BEFORE, AFTER))


def downgrade() -> None:
    _revision_0006().upgrade()


def _revision_0006() -> Any:
    """The migration that made the function as it was."""
    return op.get_context().script.get_revision("0006").module

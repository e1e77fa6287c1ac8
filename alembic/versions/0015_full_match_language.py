"""What a full match would score is that of the language in which most words of the query are known."""

from __future__ import annotations

from alembic import op
from app.db.migration import execute_script

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
    function = _released_function()
    assert BEFORE in function
    _run_as_owner(function.replace(BEFORE, AFTER))


def downgrade() -> None:
    _run_as_owner(_released_function())


def _released_function() -> str:
    """The function as revision 0006 made it."""
    function: str = op.get_context().script.get_revision("0006").module.UP
    return function


def _run_as_owner(function: str) -> None:
    execute_script(
        "grant create on schema keyword to kb_keyword; set local role kb_keyword;\n"
        f"{function}\n"
        "reset role; revoke create on schema keyword from kb_keyword;"
    )

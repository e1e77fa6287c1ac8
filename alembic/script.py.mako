"""${message}"""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}

UP = """
"""

DOWN = """
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)

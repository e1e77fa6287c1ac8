"""The weights of the words of an entry take less time: the expression that names all languages is prepared once."""

from __future__ import annotations

from app.db.schema.migration import load_function

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    load_function("lexemes", "lexeme_weights")
    load_function("lexemes", "entry_weights")


def downgrade() -> None:
    pass

"""An index is created in the tenant's partition, however many there are."""

from __future__ import annotations

from app.db.schema.migration import load_function

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    load_function("embeddings", "tenancy.create_vector_index")


def downgrade() -> None:
    """Leave the function, which finds the partition among 32 too."""

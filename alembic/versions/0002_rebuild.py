"""Rebuild a tenant's vectors with the same model, and record why the job of a model change waits."""

from __future__ import annotations

from app.db.schema.migration import execute_script, update_each_tenant

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    execute_script(
        """
        alter table model_changes drop constraint if exists model_changes_check;
        alter table model_changes add column if not exists refused bigint not null default 0;
        alter table model_changes add column if not exists failure text;
        comment on column model_changes.to_model is
          'The same as from_model: the vectors of this model are replaced by new ones';
        comment on column model_changes.switch_at is
          'Minimum overlap of the semantic leg at which the tenant is switched automatically; null: manually';
        comment on column model_changes.refused is
          'Entries that a rebuild visited and whose text the provider refused';
        comment on column model_changes.failure is 'Why the job waits; null while it advances';
        """
    )
    update_each_tenant(
        """
        update model_changes
           set comparison = comparison - 'ndcg_old' - 'ndcg_new'
                 || '{"depth": 10, "judgements": 0, "judged": 0, "quality": null, "semantic_quality": null}'
         where tenant_id = tenant and comparison is not null and not comparison ? 'depth'
        """
    )


def downgrade() -> None:
    """Rebuilds must be complete: under row-level security, the owner sees no row, and the constraint checks all."""
    execute_script(
        """
        alter table model_changes drop column if exists failure;
        alter table model_changes drop column if exists refused;
        alter table model_changes add constraint model_changes_check check (to_model <> from_model) not valid;
        """
    )

"""How many entries have each tag, kept exact, so that suggestions need not read the tenant's entries."""

from __future__ import annotations

from app.db.schema.migration import execute_script, isolate_tables

revision = "0008"
down_revision = "0007"

# Every tag is counted in one order, so that two writers of a tenant never wait for each other in a circle. A removed
# tag is only ever lowered, not inserted: when a tenant is deleted, its rows here may be gone before its entries.
UP = f"""
create table tag_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  tag text collate "C" not null,
  entries bigint not null,
  primary key (tenant_id, tag)
) with (fillfactor = 80);
comment on table tag_statistics is 'How many entries have a tag, hidden ones included; 0 where the last one went';
create index tag_statistics_by_use on tag_statistics (tenant_id, entries desc, tag) where entries > 0;

create function count_tags() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  changed record;
begin
  if tg_op = 'INSERT' then
    insert into tag_statistics as s (tenant_id, tag, entries)
    select e.tenant_id, t.tag collate "C", count(*) from added e cross join lateral unnest(e.tags) t (tag)
     group by 1, 2 order by 1, 2
    on conflict (tenant_id, tag) do update set entries = s.entries + excluded.entries;
  elsif tg_op = 'UPDATE' then
    insert into tag_statistics as s (tenant_id, tag, entries)
    select u.tenant_id, u.tag collate "C", sum(u.n)
      from (select a.tenant_id, t.tag, 1 as n from added a cross join lateral unnest(a.tags) t (tag)
            union all
            select r.tenant_id, t.tag, -1 from removed r cross join lateral unnest(r.tags) t (tag)) u
     group by 1, 2 having sum(u.n) <> 0 order by 1, 2
    on conflict (tenant_id, tag) do update set entries = s.entries + excluded.entries;
  else
    for changed in
      select e.tenant_id, t.tag collate "C" as tag, count(*) as n
        from removed e cross join lateral unnest(e.tags) t (tag) group by 1, 2 order by 1, 2
    loop
      update tag_statistics s set entries = s.entries - changed.n
       where s.tenant_id = changed.tenant_id and s.tag = changed.tag;
    end loop;
  end if;
  return null;
end $$;
revoke all on function count_tags() from public;
{isolate_tables("tag_statistics")}

do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    insert into tag_statistics (tenant_id, tag, entries)
    select tenant, t.tag, count(*) from entries e cross join lateral unnest(e.tags) t (tag)
     where e.tenant_id = tenant group by t.tag;
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;

create trigger tags_inserted after insert on entries
  referencing new table as added for each statement execute function count_tags();
create trigger tags_updated after update on entries
  referencing old table as removed new table as added for each statement execute function count_tags();
create trigger tags_deleted after delete on entries
  referencing old table as removed for each statement execute function count_tags();
"""

DOWN = """
drop trigger tags_inserted on entries;
drop trigger tags_updated on entries;
drop trigger tags_deleted on entries;
drop function count_tags();
drop table tag_statistics;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)

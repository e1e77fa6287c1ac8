-- A tenant's change to another embedding model, or the rebuild of its vectors with the same model: its state, and the
-- triggers that maintain its guarantees.
--
-- No trigger changes the state; app/knowledge/reembedding/machine.py does. While the row exists and is not `dropping`,
-- await_both_models() queues each written entry for vectors of both models. Otherwise keep_models_in_use() removes late
-- vectors of a model that is not in use.

create table model_changes (
  tenant_id uuid primary key references tenants on delete cascade,
  from_model integer not null references embedding_models,
  to_model integer not null references embedding_models,
  state text not null default 'filling' check (state in ('filling', 'ready', 'dropping')),
  rate integer check (rate > 0),
  switch_at double precision check (switch_at between 0 and 1),
  place uuid not null default '00000000-0000-0000-0000-000000000000',
  visited bigint not null default 0,
  visited_all boolean not null default false,
  comparison jsonb,
  started_at timestamptz not null default clock_timestamp(),
  ready_at timestamptz,
  switched_at timestamptz,
  refused bigint not null default 0,
  failure text
);
comment on table model_changes is 'While a row exists and is not being dropped, every entry gets vectors of both models';
comment on column model_changes.rate is 'Texts to embed per minute; null: as many as the provider accepts';
comment on column model_changes.to_model is 'The same as from_model: the vectors of this model are replaced by new ones';
comment on column model_changes.switch_at is
  'Minimum overlap of the semantic leg at which the tenant is switched automatically; null: manually';
comment on column model_changes.place is 'Entries up to this id wait for their vectors or have them';
comment on column model_changes.refused is 'Entries that a rebuild visited and whose text the provider refused';
comment on column model_changes.failure is 'Why the job waits; null while it advances';

-- Each written entry waits for vectors of both models, independent of the writer and the model that it assumes. A change
-- begins with a lock on the tenant that waits for current writers: each writer sees the change here, or the change sees
-- the writer's entries.
create or replace function await_both_models() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  writer uuid;
  models integer[];
  ids uuid[];
begin
  for writer in select distinct a.tenant_id from added a order by 1 loop
    select array[c.from_model, c.to_model] into models
      from model_changes c where c.tenant_id = writer and c.state <> 'dropping';
    continue when not found;
    if tg_op = 'INSERT' then
      ids := array(select a.id from added a where a.tenant_id = writer);
    else
      ids := array(select a.id from added a
                     join removed r on r.tenant_id = a.tenant_id and r.id = a.id and r.text_hash <> a.text_hash
                    where a.tenant_id = writer);
    end if;
    insert into pending_embeddings (tenant_id, model_id, entry_id)
    select e.tenant_id, m.id, e.id
      from entries e cross join unnest(models) m (id)
     where e.tenant_id = writer and e.id = any (ids) order by 1, 2, 3
    on conflict do nothing;
  end loop;
  return null;
end $$;
revoke all on function await_both_models() from public;

create trigger embed_inserted after insert on entries
  referencing new table as added for each statement execute function await_both_models();
create trigger embed_updated after update on entries
  referencing old table as removed new table as added for each statement execute function await_both_models();

-- Late vectors of a model that the tenant no longer uses are not kept: their entries wait for vectors of the current
-- model. Because of its name, this trigger runs after the counting trigger, which then also counts the removal.
create or replace function keep_models_in_use() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  written record;
  current_model integer;
  ids uuid[];
begin
  for written in select distinct a.tenant_id, a.model_id from added a order by 1, 2 loop
    select t.model_id into current_model
      from tenants t
     where t.id = written.tenant_id and t.model_id <> written.model_id
       and not exists (select from model_changes c where c.tenant_id = written.tenant_id and c.state <> 'dropping'
                          and written.model_id in (c.from_model, c.to_model));
    continue when not found;
    ids := array(select distinct a.entry_id from added a
                  where a.tenant_id = written.tenant_id and a.model_id = written.model_id);
    insert into pending_embeddings (tenant_id, model_id, entry_id)
    select e.tenant_id, current_model, e.id
      from entries e
     where e.tenant_id = written.tenant_id and e.id = any (ids)
       and not exists (select from embeddings k where k.tenant_id = written.tenant_id and k.entry_id = e.id
                          and k.model_id = current_model)
     order by 3
    on conflict do nothing;
    delete from embeddings k
     where k.tenant_id = written.tenant_id and k.model_id = written.model_id and k.entry_id = any (ids);
  end loop;
  return null;
end $$;
revoke all on function keep_models_in_use() from public;

create trigger keep_models_in_use after insert on embeddings
  referencing new table as added for each statement execute function keep_models_in_use();

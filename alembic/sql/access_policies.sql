-- The policies that compare readers and writers with the principals of a transaction. They only narrow those of
-- tenant_isolation.sql, and policies that exist are left as they are.
--
-- Citus refuses to distribute tables with such policies. In a cluster, each node gets them afterwards, with this text, and
-- `shards.adopt` gives the shards the policies of their tables. Citus itself copies them to new nodes and shards as permissive
-- policies, until they are replaced: so they name the tenant, too.
/* one server */
do $$
declare
  tenant constant text := case when to_regnamespace('shards') is null then '%s' else 'tenant_id = current_tenant() and (%s)' end;
  readable constant text := 'readers is null or audience(readers) && (select current_principals())';
  changeable constant text := 'writers is null or audience(writers) && (select current_principals())';
  everything constant text := '(select sees_everything())';
  counted constant text := 'principal = any ((select current_principals())::text[]) or ''*'' = any ((select current_principals())::text[])';
  own constant text := everything || ' or (''user:'' || subject) = any ((select current_principals())::text[])';
  place record;
  verb text;
begin
  for place in
    values ('entries', readable), ('assets', readable), ('embeddings', readable), ('former_entries', readable),
           ('former_embeddings', readable),
           ('corpus_statistics', counted), ('lexeme_statistics', counted),
           ('searches', own), ('callers', own),
           ('erasures', everything), ('erasure_items', everything), ('sources', readable),
           ('source_items', format('(%s) and source = any ((select visible_sources())::text[])', readable))
    union all
    select t.name, everything || ' or may_read(tenant_id, entry_id)'
      from unnest(array['pending_embeddings', 'entry_changes', 'access_counts', 'feedback', 'deliveries']) t (name)
  loop
    continue when exists (select from pg_policy p
                           where p.polrelid = to_regclass(place.column1) and p.polname = 'readers' and not p.polpermissive);
    execute format('drop policy if exists readers on %I', place.column1);
    execute format('create policy readers on %I as restrictive to kb_reader, current_user using (%s) with check (%2$s)',
                   place.column1, format(tenant, place.column2));
  end loop;
  -- Who may change a row, of those who see it. A row cannot be given writers without the one who writes it.
  for place in
    values ('entries', changeable), ('assets', changeable), ('sources', changeable),
           ('embeddings', everything || ' or may_change(tenant_id, entry_id)'),
           ('former_embeddings', everything || ' or may_change(tenant_id, entry_id)'),
           ('former_entries', everything || ' or may_change(tenant_id, id)'),
           ('source_items', 'source = any ((select changeable_sources())::text[])')
  loop
    foreach verb in array array['insert', 'update', 'delete'] loop
      continue when exists (select from pg_policy p
                             where p.polrelid = to_regclass(place.column1) and p.polname = 'writers_' || verb and not p.polpermissive);
      execute format('drop policy if exists writers_%s on %I', verb, place.column1);
      execute format('create policy writers_%1$s on %2$I as restrictive for %1$s to kb_reader, current_user %3$s', verb, place.column1,
                     case verb when 'insert' then format('with check (%s)', format(tenant, place.column2))
                               when 'delete' then format('using (%s)', format(tenant, place.column2))
                               else format('using (%1$s) with check (%1$s)', format(tenant, place.column2)) end);
    end loop;
  end loop;
  -- The trail names entries, and those that are deleted too. Every writer adds to it.
  if not exists (select from pg_policy p where p.polrelid = to_regclass('audit') and p.polname = 'readers' and not p.polpermissive) then
    drop policy if exists readers on audit;
    execute format('create policy readers on audit as restrictive for select to kb_reader, current_user using (%s)',
                   format(tenant, everything || ' or (''user:'' || actor) = any ((select current_principals())::text[])'));
  end if;
end $$;
/* Citus: select; */

-- Ways in which callers of a tenant would see or change rows that they may not. On a node of a cluster, the policies of its
-- shards are compared with those of their tables.

-- name: access_policies
-- Each table of entries, or about them, has restrictive policies with exactly these conditions, for the application and the
-- owner of the tables, whose triggers they bind too: one for its readers, and for its writers one for each verb.
with conditions (kind, condition) as (
  values ('readers', '((readers IS NULL) OR (audience(readers) && ( SELECT current_principals() AS current_principals)))'),
         ('principal', '((principal = ANY (( SELECT current_principals() AS current_principals)::text[])) OR (''*''::text = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('subject', '(( SELECT sees_everything() AS sees_everything) OR ((''user:''::text || subject) = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('actor', '(( SELECT sees_everything() AS sees_everything) OR ((''user:''::text || actor) = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('everything', '( SELECT sees_everything() AS sees_everything)'),
         ('entry', '(( SELECT sees_everything() AS sees_everything) OR may_read(tenant_id, entry_id))'),
         ('item', '(((readers IS NULL) OR (audience(readers) && ( SELECT current_principals() AS current_principals))) AND (source = ANY (( SELECT visible_sources() AS visible_sources)::text[])))'),
         ('writers', '((writers IS NULL) OR (audience(writers) && ( SELECT current_principals() AS current_principals)))'),
         ('part', '(( SELECT sees_everything() AS sees_everything) OR may_change(tenant_id, entry_id))'),
         ('version', '(( SELECT sees_everything() AS sees_everything) OR may_change(tenant_id, id))'),
         ('source', '(source = ANY (( SELECT changeable_sources() AS changeable_sources)::text[]))')
), wanted as (
  select w.place, v.policy, v.command, c.condition,
         format('((tenant_id = current_tenant()) AND %s)', c.condition) as of_tenant
    from (values ('entries', 'readers'), ('assets', 'readers'), ('embeddings', 'readers'), ('former_entries', 'readers'),
                 ('former_embeddings', 'readers'), ('sources', 'readers'), ('source_items', 'item'),
                 ('corpus_statistics', 'principal'), ('lexeme_statistics', 'principal'), ('searches', 'subject'), ('callers', 'subject'), ('audit', 'actor'),
                 ('erasures', 'everything'), ('erasure_items', 'everything'), ('pending_embeddings', 'entry'),
                 ('entry_changes', 'entry'), ('access_counts', 'entry'), ('feedback', 'entry'), ('deliveries', 'entry'),
                 ('entries', 'writers'), ('assets', 'writers'), ('sources', 'writers'), ('embeddings', 'part'),
                 ('former_embeddings', 'part'), ('former_entries', 'version'), ('source_items', 'source')) w (place, kind)
    join conditions c on c.kind = w.kind
   cross join lateral (
     select 'readers' as policy, case w.place when 'audit' then 'r'::"char" else '*'::"char" end as command
      where w.kind not in ('writers', 'part', 'version', 'source')
     union all
     select 'writers_' || x.verb, x.command
       from (values ('insert', 'a'::"char"), ('update', 'w'::"char"), ('delete', 'd'::"char")) x (verb, command)
      where w.kind in ('writers', 'part', 'version', 'source')) v
), found as (
  select p.polname, p.polrelid, p.polpermissive, p.polcmd, p.polroles,
         replace(regexp_replace(pg_get_expr(p.polqual, p.polrelid), '\s+', ' ', 'g'), 'public.', '') as condition,
         replace(regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), '\s+', ' ', 'g'), 'public.', '') as checked
    from pg_policy p
)
select format('policy %s on %s is missing or allows more than it should', w.policy, w.place) as fault,
       format('drop policy %s on %s, and create it again as alembic/sql/access_policies.sql does', w.policy, w.place) as remedy
  from wanted w
  join pg_class c on c.oid = to_regclass('public.' || w.place)
 where not exists (
     select from found p
      where p.polrelid = c.oid and p.polname = w.policy and not p.polpermissive and p.polcmd = w.command
        and p.polroles @> array[to_regrole('kb_reader')::oid, c.relowner]
        and (w.command = 'a' or p.condition = case when :distributed then w.of_tenant else w.condition end)
        and (w.command in ('r', 'd') or p.checked = case when :distributed then w.of_tenant else w.condition end))
 order by 1;

-- Ways in which callers of a tenant would see rows that they may not read, in the catalog of one server: a cluster of Citus
-- has no such policies, since its tables accept no readers.

-- name: reader_policies
-- Each table of entries, or about them, has a restrictive policy with exactly this condition, for the application and the
-- owner of the tables, whose triggers it binds too.
with conditions (kind, condition) as (
  values ('readers', '((readers IS NULL) OR (audience(readers) && ( SELECT current_principals() AS current_principals)))'),
         ('principal', '((principal = ANY (( SELECT current_principals() AS current_principals)::text[])) OR (''*''::text = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('subject', '(( SELECT sees_everything() AS sees_everything) OR ((''user:''::text || subject) = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('actor', '(( SELECT sees_everything() AS sees_everything) OR ((''user:''::text || actor) = ANY (( SELECT current_principals() AS current_principals)::text[])))'),
         ('everything', '( SELECT sees_everything() AS sees_everything)'),
         ('entry', '(( SELECT sees_everything() AS sees_everything) OR (EXISTS ( SELECT FROM entries e WHERE ((e.tenant_id = %1$s.tenant_id) AND (e.id = %1$s.entry_id)))))')
), wanted as (
  select w.place, format(c.condition, w.place) as condition, case w.place when 'audit' then 'r'::"char" else '*'::"char" end as command
    from (values ('entries', 'readers'), ('assets', 'readers'), ('embeddings', 'readers'), ('former_entries', 'readers'),
                 ('former_embeddings', 'readers'), ('corpus_statistics', 'principal'), ('searches', 'subject'), ('audit', 'actor'),
                 ('erasures', 'everything'), ('erasure_items', 'everything'), ('pending_embeddings', 'entry'),
                 ('entry_changes', 'entry'), ('access_counts', 'entry'), ('feedback', 'entry'), ('deliveries', 'entry')) w (place, kind)
    join conditions c on c.kind = w.kind
)
select format('policy readers on %s is missing or shows more than its reader may read', w.place) as fault,
       format('drop policy readers on %s, and create it again as alembic/sql/access.sql does', w.place) as remedy
  from wanted w
  join pg_class c on c.oid = to_regclass('public.' || w.place)
 where not :distributed
   and not exists (
     select from pg_policy p
      where p.polrelid = c.oid and p.polname = 'readers' and not p.polpermissive and p.polcmd = w.command
        and p.polroles @> array[to_regrole('kb_reader')::oid, c.relowner]
        and replace(regexp_replace(pg_get_expr(p.polqual, p.polrelid), '\s+', ' ', 'g'), 'public.', '') = w.condition
        and (w.command = 'r' or pg_get_expr(p.polwithcheck, p.polrelid) = pg_get_expr(p.polqual, p.polrelid)))
 order by 1;

-- Who may read and write inside a tenant: the principals of a transaction, and lists of them in rows.
--
-- A row with `readers` is visible to transactions with one of these principals, and to those of the service itself, which
-- have the principal `*`. A row without is visible to all readers of the tenant. A transaction without principals sees only
-- rows without readers. In the same way, `writers` name those that may change a row that they see.

create or replace function current_principals() returns text[]
language sql stable parallel safe
return coalesce(nullif(pg_catalog.current_setting('app.current_principals', true), '')::text[], '{everyone}'::text[]);
revoke all on function current_principals() from public;
grant execute on function current_principals() to kb_reader, kb_keyword, kb_queue;
comment on function current_principals() is
  'The principals of this transaction: `everyone`, `user:SUB` and `group:NAME` of the caller, or `*` for the service itself';

-- For triggers that change rows which the caller may not read: from here on, the transaction sees all rows of the tenant, until
-- the trigger sets the result again. An error ends that too.
create or replace function begin_as_service() returns text
language plpgsql set search_path = pg_catalog, public, pg_temp
as $$
declare own constant text := coalesce(current_setting('app.current_principals', true), '');
begin
  perform set_config('app.current_principals', '{*,everyone}', true);
  return own;
end $$;
revoke all on function begin_as_service() from public;
grant execute on function begin_as_service() to kb_creator;

-- The principals that pass a list of readers or writers.
create or replace function audience(readers text[]) returns text[]
language sql immutable parallel safe
return case when readers is null then '{everyone}'::text[] else pg_catalog.array_append(readers, '*'::text) end;
revoke all on function audience(text[]) from public;
grant execute on function audience(text[]) to kb_reader, kb_keyword;

-- 1 to 64 different groups and users, in order. 264 characters are `group:` and 258 more.
create or replace function is_principal_list(principals text[]) returns boolean
language sql immutable parallel safe
begin atomic
  select cardinality(principals) between 1 and 64
     and not exists (select from unnest(principals) with ordinality p (principal, place)
                      where p.principal is null or p.principal !~ '^(group|user):.' or length(p.principal) > 264
                         or p.place > 1 and p.principal collate "C" <= principals[p.place - 1] collate "C");
end;
revoke all on function is_principal_list(text[]) from public;
grant execute on function is_principal_list(text[]) to kb_reader;

-- The filter of all searches: which entries a search can find, and how many of them wait for a vector.
--
-- With `as_of`, a search finds what was valid at that time: the rows of `entries` that have not changed since, and the rows
-- of `former_entries` that ended later.

-- `condition` is a predicate on the metadata. Its variables are condition_values and `entry`, which has other fields of the
-- entry: those in condition_fields. `indexed` is a predicate that the index of the metadata answers; all entries that
-- fulfil the condition fulfil it. No entry may match a query of `excluded`, unless its text matches the pattern of
-- excluded_typed in the same place; `required` is a query that each entry must match.

create type entry_filter as (
  include_superseded boolean,
  roles text[],
  tags text[],
  all_tags boolean,
  entry_types text[],
  min_confidence double precision,
  scope text,
  source text,
  asset_ids uuid[],
  metadata jsonb,
  created tstzrange,
  updated tstzrange,
  condition jsonpath,
  condition_values jsonb,
  condition_fields integer,
  indexed jsonpath,
  as_of timestamptz,
  excluded text[],
  excluded_typed text[],
  required text
);
comment on type entry_filter is 'The conditions of a search on entries, without the text; a null field is not a condition';

-- The fields of an entry as a condition compares them: times in microseconds since 1970, and an empty list is null. Each bit
-- of p_fields is one field: all of them would take five times as long as reading the entry. As part of entry_passes(), this
-- would slow down the start of each statement.
create or replace function entry_fields(e entries, p_fields integer) returns jsonb
language plpgsql stable parallel safe
as $$
begin
  return case when p_fields & 1 = 0 then '{}' else jsonb_build_object('id', e.id) end
      || case when p_fields & 2 = 0 then '{}' else jsonb_build_object('entry_type', e.entry_type) end
      || case when p_fields & 4 = 0 then '{}' else jsonb_build_object('title', e.title) end
      || case when p_fields & 8 = 0 then '{}' else jsonb_build_object('tags', nullif(e.tags, '{}')) end
      || case when p_fields & 16 = 0 then '{}' else jsonb_build_object('roles', e.roles) end
      || case when p_fields & 32 = 0 then '{}' else jsonb_build_object('scope', e.scope) end
      || case when p_fields & 64 = 0 then '{}' else jsonb_build_object('confidence', e.confidence) end
      || case when p_fields & 128 = 0 then '{}' else jsonb_build_object('is_verified', e.is_verified) end
      || case when p_fields & 256 = 0 then '{}' else jsonb_build_object('source', case when e.asset_id is null then 'entry' else 'asset' end) end
      || case when p_fields & 512 = 0 then '{}' else jsonb_build_object('asset_id', e.asset_id) end
      || case when p_fields & 1024 = 0 then '{}' else jsonb_build_object('parent_id', e.parent_id) end
      || case when p_fields & 2048 = 0 then '{}' else jsonb_build_object('superseded_by_id', e.superseded_by_id) end
      || case when p_fields & 4096 = 0 then '{}' else jsonb_build_object('external_id', e.external_id) end
      || case when p_fields & 8192 = 0 then '{}' else jsonb_build_object('language', e.language) end
      || case when p_fields & 16384 = 0 then '{}' else jsonb_build_object('created_at', (extract(epoch from e.created_at) * 1000000)::bigint) end
      || case when p_fields & 32768 = 0 then '{}' else jsonb_build_object('updated_at', (extract(epoch from e.updated_at) * 1000000)::bigint) end
      || case when p_fields & 65536 = 0 then '{}' else jsonb_build_object('expires_at', (extract(epoch from e.expires_at) * 1000000)::bigint) end;
end $$;
revoke all on function entry_fields(entries, integer) from public;
grant execute on function entry_fields(entries, integer) to kb_reader, kb_keyword;

-- Whether an entry fulfils the condition of a filter; a comparison of different types does not.
create or replace function entry_fulfils(e entries, f entry_filter) returns boolean
language sql stable parallel safe
return f.condition is null
    or coalesce(jsonb_path_match(
         e.metadata, f.condition,
         case when f.condition_fields = 0 then f.condition_values
              else f.condition_values || jsonb_build_object('entry', entry_fields(e, f.condition_fields)) end), false);
revoke all on function entry_fulfils(entries, entry_filter) from public;
grant execute on function entry_fulfils(entries, entry_filter) to kb_reader, kb_keyword;

-- Whether an entry has none of the words that a filter excludes. Someone who pastes a command excludes `-rf` by accident: an
-- entry that has it with its hyphen stays.
create or replace function entry_avoids(e entries, f entry_filter) returns boolean
language plpgsql stable parallel safe
as $$
begin
  return not exists (
    select from unnest(f.excluded, f.excluded_typed) x (query, typed)
     where e.lexemes @@ x.query::tsquery and (x.typed is null or concat_ws(' ', e.title, e.content) !~* x.typed));
end $$;
revoke all on function entry_avoids(entries, entry_filter) from public;
grant execute on function entry_avoids(entries, entry_filter) to kb_reader, kb_keyword;

-- Whether an entry is neither quarantined nor expired at a time: others are in no answer, nor do their words change one.
create or replace function is_live(quarantined boolean, expires_at timestamptz, at timestamptz) returns boolean
language sql immutable parallel safe
return not quarantined and (expires_at is null or expires_at > at);
revoke all on function is_live(boolean, timestamptz, timestamptz) from public;
grant execute on function is_live(boolean, timestamptz, timestamptz) to kb_reader, kb_keyword;

-- Whether an entry passes all parts of a filter.
create or replace function entry_passes(e entries, f entry_filter) returns boolean
language sql stable parallel safe
return is_live(e.quarantined, e.expires_at, coalesce(f.as_of, now()))
   and (f.as_of is null or e.updated_at <= f.as_of)
   and (e.superseded_by_id is null or f.include_superseded)
   and (f.roles is null or e.roles && f.roles)
   and (f.tags is null or case when f.all_tags then e.tags @> f.tags else e.tags && f.tags end)
   and (f.entry_types is null or e.entry_type = any (f.entry_types))
   and (f.min_confidence is null or e.confidence >= f.min_confidence)
   and (f.scope is null or e.scope = f.scope)
   and (f.source is null or (e.asset_id is not null) = (f.source = 'asset'))
   and (f.asset_ids is null or e.asset_id = any (f.asset_ids))
   and (f.metadata is null or e.metadata @> f.metadata)
   and (f.created is null or e.created_at <@ f.created)
   and (f.updated is null or e.updated_at <@ f.updated)
   and entry_fulfils(e, f)
   and (f.excluded is null or entry_avoids(e, f))
   and (f.required is null or e.lexemes @@ f.required::tsquery);
revoke all on function entry_passes(entries, entry_filter) from public;
grant execute on function entry_passes(entries, entry_filter) to kb_reader, kb_keyword;

-- Whether the row of an entry was already there at a time: no former version of it ended later.
create or replace function was_current(p_id uuid, p_as_of timestamptz) returns boolean
language plpgsql stable parallel safe
as $$
declare tenant constant uuid := public.current_tenant();
begin
  return not exists (select from public.former_entries v
                      where v.tenant_id = tenant and v.id = p_id and v.valid_until > p_as_of);
end $$;
revoke all on function was_current(uuid, timestamptz) from public;
grant execute on function was_current(uuid, timestamptz) to kb_reader, kb_keyword;

-- Whether a search finds another chunk instead of this one: the chunk that this one repeats, or an earlier one that
-- repeats the same, if it has the same text, passes the same filter and may be read by the caller. Only chunks with a value in
-- `repeats` need it. The plan is kept: a new one takes milliseconds for each chunk, with all partitions and the whole filter.
create or replace function repeats_another(p_id uuid, p_repeats uuid, p_text_hash bytea, f entry_filter) returns boolean
language plpgsql stable parallel safe set plan_cache_mode = force_generic_plan
as $$
declare
  tenant constant uuid := public.current_tenant();
  principals constant text[] := public.current_principals();
begin
  return exists (
      select from public.entries e
       where e.tenant_id = tenant and e.id = p_repeats and e.text_hash = p_text_hash and public.entry_passes(e, f)
         and public.audience(e.readers) && principals
         and (f.as_of is null or public.was_current(e.id, f.as_of)))
    or exists (
      select from public.entries e
       where e.tenant_id = tenant and e.repeats = p_repeats and e.id < p_id and e.text_hash = p_text_hash
         and public.entry_passes(e, f) and public.audience(e.readers) && principals and (f.as_of is null or public.was_current(e.id, f.as_of)))
    or f.as_of is not null and exists (
      select from public.former_entries v
       where v.tenant_id = tenant and (v.id = p_repeats or v.repeats = p_repeats and v.id < p_id)
         and v.text_hash = p_text_hash and v.valid_from <= f.as_of and v.valid_until > f.as_of and not v.absent
         and public.entry_passes(public.former_entry(v), f) and public.audience(v.readers) && principals);
end $$;
revoke all on function repeats_another(uuid, uuid, bytea, entry_filter) from public;
grant execute on function repeats_another(uuid, uuid, bytea, entry_filter) to kb_reader, kb_keyword;

-- Whether a search with this filter can find an entry: it passes the filter and repeats no chunk that also passes it.
create or replace function entry_matches(e entries, f entry_filter) returns boolean
language sql stable parallel safe
return entry_passes(e, f) and (f.as_of is null or was_current(e.id, f.as_of))
   and (e.repeats is null or not repeats_another(e.id, e.repeats, e.text_hash, f));
revoke all on function entry_matches(entries, entry_filter) from public;
grant execute on function entry_matches(entries, entry_filter) to kb_reader, kb_keyword;

-- The number of entries that pass a filter and have no vector of a model. Where no entry waits for a vector, this is one
-- look at an index. At most p_limit entries are looked at; with more, the result is a lower bound, and at least 1. With
-- p_ids, the ids of the entries that pass the filter, only these are counted, all of them. A model that the tenant no
-- longer uses has no queue and may lose its vectors at any time: then the entries are compared with its vectors.
create or replace function pending_entries(
  p_tenant uuid, p_model integer, p_filter entry_filter, p_ids uuid[], p_limit integer) returns bigint
language plpgsql stable
as $$
declare
  in_use boolean;
  waiting boolean;
  counted bigint;
  looked_at bigint;
begin
  select t.model_id = p_model,
         exists (select from pending_embeddings p where p.tenant_id = p_tenant and p.model_id = p_model)
    into in_use, waiting from tenants t where t.id = p_tenant;
  if in_use and not waiting then
    return 0;
  elsif in_use is not true then
    select count(*), count(*) into counted, looked_at
      from (select from entries e
             where e.tenant_id = p_tenant and entry_matches(e, p_filter) and (p_ids is null or e.id = any (p_ids))
               and not exists (select from embeddings k
                                where k.tenant_id = p_tenant and k.entry_id = e.id and k.model_id = p_model)
             limit p_limit) w;
  elsif p_ids is not null then
    select count(*), 0 into counted, looked_at
      from pending_embeddings p
     where p.tenant_id = p_tenant and p.model_id = p_model and p.entry_id = any (p_ids);
  else
    select count(*) filter (where e.passes), count(*) into counted, looked_at
      from (select p.entry_id from pending_embeddings p
             where p.tenant_id = p_tenant and p.model_id = p_model limit p_limit) w
     cross join lateral (
       select entry_matches(e, p_filter) as passes from entries e where e.tenant_id = p_tenant and e.id = w.entry_id
      offset 0) e;
  end if;
  return case when looked_at >= p_limit then greatest(counted, 1) else counted end;
end $$;
revoke all on function pending_entries(uuid, integer, entry_filter, uuid[], integer) from public;
grant execute on function pending_entries(uuid, integer, entry_filter, uuid[], integer) to kb_reader;

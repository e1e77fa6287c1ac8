-- Searches of a past time in former versions. Like the functions of keyword_lookups.sql, these run as kb_keyword and
-- isolate tenants and readers themselves.

grant select on former_entries to kb_keyword;
create policy keyword_search on former_entries for select to kb_keyword using (true);

grant create on schema keyword to kb_keyword;
set local role kb_keyword;

-- The ids of all former versions that were valid at the time of the filter and pass it. Null if more than p_limit of that time
-- fulfil the conditions that have an index, or ten times as many of any later time: then not all are looked at.
create or replace function keyword.former_ids(p_filter entry_filter, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
  conditions text := '';
  candidates uuid[];
  ends timestamptz[];
  looked_at bigint;
begin
  if p_filter.tags is not null then
    conditions := conditions || case when p_filter.all_tags then ' and v.tags @> ($2).tags' else ' and v.tags && ($2).tags' end;
  end if;
  if p_filter.metadata is not null then
    conditions := conditions || ' and v.metadata @> ($2).metadata';
  end if;
  if p_filter.asset_ids is not null then
    conditions := conditions || ' and v.asset_id = any (($2).asset_ids)';
  end if;
  if p_filter.indexed is not null then
    conditions := conditions || ' and v.metadata @@ ($2).indexed';
  end if;
  execute 'with later as materialized (
             select v.id, v.valid_until, v.valid_from from former_entries v
              where v.tenant_id = $1 and v.valid_until > $3 and not v.absent and audience(v.readers) && $5' || conditions || ' limit 10 * $4 + 1),
           candidates as materialized (select l.id, l.valid_until from later l where l.valid_from <= $3 limit $4 + 1)
           select (select count(*) from later), array_agg(c.id), array_agg(c.valid_until) from candidates c'
    into looked_at, candidates, ends using tenant, p_filter, p_filter.as_of, p_limit, principals;
  if looked_at > 10 * p_limit or cardinality(candidates) > p_limit then
    return null;
  end if;
  return array(
    select p.id
      from unnest(candidates, ends) c (id, valid_until)
     cross join lateral (
       select v.id from former_entries v
        where v.tenant_id = tenant and v.id = c.id and v.valid_until = c.valid_until
          and entry_passes(former_entry(v), p_filter)
          and (v.repeats is null or not repeats_another(v.id, v.repeats, v.text_hash, p_filter))
      offset 0) p);
end $$;
revoke all on function keyword.former_ids(entry_filter, integer) from public;
grant execute on function keyword.former_ids(entry_filter, integer) to kb_reader;

-- The former versions that were valid at the time of the filter, pass it, and match a query, with what their scores need; at
-- most p_limit. With p_ids, those that pass, only these are looked at, and without a query all of them are returned. Otherwise
-- at most twice p_limit that match are looked at, without a query those that ended first after the time; if there are more, a
-- row without an id is added. Only keyword.search() may call this, since it returns words. The plan depends on the time, of
-- which a generic one knows nothing.
create or replace function keyword.former_words(p_filter entry_filter, p_query tsquery, p_ids uuid[], p_limit integer)
returns table (id uuid, updated_at timestamptz, word_weights sparsevec, lexemes tsvector, language text, text_length integer,
               pattern bigint)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
  candidates uuid[];
  ends timestamptz[];
begin
  if p_ids is not null then
    return query
      select v.id, v.updated_at, v.word_weights, v.lexemes, v.language, v.text_length, v.pattern
        from unnest(p_ids) c (id)
       cross join lateral (
         select f.* from former_entries f
          where f.tenant_id = tenant and f.id = c.id and f.valid_until > p_filter.as_of and f.valid_from <= p_filter.as_of
            and not f.absent and (p_query is null or f.lexemes @@ p_query)
        offset 0) v
       limit case when p_query is not null then p_limit end;
    return;
  end if;
  execute 'select array_agg(w.id), array_agg(w.valid_until)
             from (select v.id, v.valid_until from former_entries v
                    where v.tenant_id = $1 and v.valid_until > $3 and v.valid_from <= $3 and not v.absent
                      and audience(v.readers) && $5'
          || case when p_query is null then ' and $2 is null order by v.valid_until' else ' and v.lexemes @@ $2' end
          || ' limit 2 * $4 + 1) w'
    into candidates, ends using tenant, p_query, p_filter.as_of, p_limit, principals;
  if cardinality(candidates) > 2 * p_limit then
    id := null;
    return next;
  end if;
  return query
    select v.id, v.updated_at, v.word_weights, v.lexemes, v.language, v.text_length, v.pattern
      from unnest(candidates, ends) c (id, valid_until)
     cross join lateral (
       select v.* from former_entries v
        where v.tenant_id = tenant and v.id = c.id and v.valid_until = c.valid_until
          and entry_passes(former_entry(v), p_filter)
          and (v.repeats is null or not repeats_another(v.id, v.repeats, v.text_hash, p_filter))
      offset 0) v
     limit p_limit;
end $$;
revoke all on function keyword.former_words(entry_filter, tsquery, uuid[], integer) from public;

reset role;
revoke create on schema keyword from kb_keyword;

-- Full-text search that uses its index under row-level security.
--
-- Operators such as @@ and && are not leakproof, so under a policy Postgres reads all rows of the tenant instead of an
-- index. The functions of the schema keyword run as kb_keyword, whose policy allows the use of the index, and isolate
-- tenants and readers themselves: each function reads the tenant first, raises an error if there is none, and has the
-- conditions `tenant_id = tenant` and `audience(readers) && principals` in every query. They return ids and numbers, never content. Generic plans are forced: planning
-- for 32 partitions in each call would cost more than the search. The planner does not know how many rows a limit or a word
-- leaves: functions that look for words let it use neither a scan of the table nor an index in order, and make rows that an
-- index finds by the tenant alone dear. Otherwise it may read all rows of the tenant, until a vacuum corrects its estimates.

grant select on entries to kb_keyword;
create policy keyword_search on entries for select to kb_keyword using (true);

create schema keyword authorization current_user;
grant usage on schema keyword to kb_reader, kb_keyword;
grant create on schema keyword to kb_keyword;
set local role kb_keyword;

create or replace function keyword.required_tenant() returns uuid
language plpgsql stable set search_path = pg_catalog, public, pg_temp
as $$
declare tenant uuid := current_tenant();
begin
  if tenant is null then
    raise exception 'no tenant is set' using errcode = 'insufficient_privilege';
  end if;
  return tenant;
end $$;
revoke all on function keyword.required_tenant() from public;

-- A lexeme as a query.
create or replace function keyword.word_query(p_lexeme text) returns text
language sql immutable parallel safe
return '''' || replace(replace(p_lexeme, '\', '\\'), '''', '''''') || '''';
revoke all on function keyword.word_query(text) from public;
grant execute on function keyword.word_query(text) to kb_reader;

-- What the inner products with word_weights are, for an entry whose word_weights are null.
create or replace function keyword.sum_words(
  p_text tsvector, p_language text, p_lexemes text[], p_languages text[], p_weights double precision[])
returns double precision[]
language sql immutable parallel safe
begin atomic
  select array[sum(w.weight), sum(w.weight * (w.tf - 1) / (w.tf + 1.2))]
    from (select u.weight, greatest(1, ts_rank_cd('{1,1,1,1}', p_text, keyword.word_query(u.lexeme)::tsquery)) as tf
            from unnest(p_lexemes, p_languages, p_weights) u (lexeme, language, weight)
           where u.language = p_language and p_text @@ keyword.word_query(u.lexeme)::tsquery) w;
end;
revoke all on function keyword.sum_words(tsvector, text, text[], text[], double precision[]) from public;

-- A query for entries whose words weigh p_least together. p_words are queries, the heaviest first; only seven are combined,
-- at most three at a time. A word in more than p_budget entries is not sufficient alone, and one in more than 20 budgets
-- is only looked for in entries with a rarer word: reading its postings would take too long. Null if nothing qualifies.
create or replace function keyword.combined_query(
  p_words text[], p_weights double precision[], p_frequencies bigint[], p_least double precision, p_budget integer)
returns tsquery
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp
as $$
declare
  words constant integer := least(cardinality(p_words), 7);
  least_weight constant double precision :=
    least(p_least, p_weights[1] + coalesce(p_weights[2], 0) + coalesce(p_weights[3], 0));
  alternatives text[] := '{}';
  last_pair integer;
  last_triple integer;
begin
  for i in 1 .. words loop
    continue when p_frequencies[i] > 20 * p_budget;
    if p_weights[i] >= least_weight and p_frequencies[i] <= p_budget then
      alternatives := alternatives || p_words[i];
      continue;
    end if;
    last_pair := i;
    while last_pair < words and p_weights[i] + p_weights[last_pair + 1] >= least_weight loop
      last_pair := last_pair + 1;
    end loop;
    if last_pair > i then
      alternatives := alternatives
        || format('%s & (%s)', p_words[i], array_to_string(p_words[i + 1 : last_pair], ' | '));
    end if;
    for j in last_pair + 1 .. words - 1 loop
      last_triple := j;
      while last_triple < words
            and p_weights[i] + p_weights[j] + p_weights[last_triple + 1] >= least_weight loop
        last_triple := last_triple + 1;
      end loop;
      exit when last_triple = j;
      alternatives := alternatives || format(
        '%s & %s & (%s)', p_words[i], p_words[j], array_to_string(p_words[j + 1 : last_triple], ' | '));
    end loop;
  end loop;
  return nullif(array_to_string(alternatives, ' | '), '')::tsquery;
end $$;
revoke all on function keyword.combined_query(text[], double precision[], bigint[], double precision, integer) from public;

-- The entries that pass a filter, at most p_limit. Callers pass one more than they can use, to detect "too many".
create or replace function keyword.filtered_ids(p_filter entry_filter, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
  conditions text := '';
  ids uuid[];
begin
  -- Only conditions with an index are repeated here; entry_matches checks all of them.
  if p_filter.tags is not null then
    conditions := conditions || case when p_filter.all_tags then ' and e.tags @> ($2).tags' else ' and e.tags && ($2).tags' end;
  end if;
  if p_filter.metadata is not null then
    conditions := conditions || ' and e.metadata @> ($2).metadata';
  end if;
  if p_filter.asset_ids is not null then
    conditions := conditions || ' and e.asset_id = any (($2).asset_ids)';
  end if;
  if p_filter.required is not null then
    conditions := conditions || ' and e.lexemes @@ ($2).required::tsquery';
  end if;
  if p_filter.indexed is not null then
    conditions := conditions || ' and e.metadata @@ ($2).indexed';
  end if;
  if lower(p_filter.created) is not null then
    conditions := conditions || ' and e.created_at >= lower(($2).created)';
  end if;
  if upper(p_filter.created) is not null then
    conditions := conditions || ' and e.created_at < upper(($2).created)';
  end if;
  execute 'select array_agg(m.id) from (select e.id from entries e where e.tenant_id = $1
             and audience(e.readers) && $4' || conditions || ' and entry_matches(e, $2) limit $3) m'
    into ids using tenant, p_filter, p_limit, principals;
  return coalesce(ids, '{}');
end $$;
revoke all on function keyword.filtered_ids(entry_filter, integer) from public;
grant execute on function keyword.filtered_ids(entry_filter, integer) to kb_reader;

-- The newest entries that pass a filter.
create or replace function keyword.newest_ids(p_filter entry_filter, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_indexscan = on
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
begin
  return array(select e.id from entries e
                where e.tenant_id = tenant and audience(e.readers) && principals and entry_matches(e, p_filter)
                order by e.id desc limit p_limit);
end $$;
revoke all on function keyword.newest_ids(entry_filter, integer) from public;

-- The entries that pass a filter and have one of the lexemes, each of which counts in entries of its language, or match
-- one of the alternatives, which are queries, in entries of its language (null: of any). At most p_limit entries are
-- returned, some of them twice. With p_ids, the ids of all entries that pass the filter, only these are looked at.
create or replace function keyword.matching_entries(
  p_lexemes text[], p_languages text[], p_alternatives text[], p_alternative_languages text[], p_filter entry_filter,
  p_ids uuid[], p_limit integer) returns table (entry_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_indexscan = off set cpu_index_tuple_cost = 0.5
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
  languages text[];
  queries tsquery[];
begin
  select array_agg(w.language), array_agg(w.query) into languages, queries
    from (select u.language, string_agg(keyword.word_query(u.lexeme), ' | ')::tsquery as query
            from unnest(p_lexemes, p_languages) u (lexeme, language) group by u.language
          union all
          select a.language, a.query::tsquery from unnest(p_alternatives, p_alternative_languages) a (query, language)) w;
  if p_ids is null then
    return query
      select e.id from unnest(languages, queries) w (language, query)
        join entries e on e.tenant_id = tenant and e.lexemes @@ w.query and audience(e.readers) && principals
       where (w.language is null or e.language = w.language) and entry_matches(e, p_filter) limit p_limit;
  else
    return query
      select e.id from unnest(languages, queries) w (language, query)
        join entries e on e.tenant_id = tenant and e.id = any (p_ids) and audience(e.readers) && principals
       where (w.language is null or e.language = w.language) and e.lexemes @@ w.query
         and (p_filter.required is null or e.lexemes @@ p_filter.required::tsquery) limit p_limit;
  end if;
end $$;
revoke all on function keyword.matching_entries(text[], text[], text[], text[], entry_filter, uuid[], integer) from public;
grant execute on function keyword.matching_entries(text[], text[], text[], text[], entry_filter, uuid[], integer) to kb_reader;

-- Entries that share at least two of the given tags, by their number.
create or replace function keyword.tag_overlaps(p_tags text[], p_without uuid, p_limit integer)
returns table (entry_id uuid, overlap_count integer)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
begin
  return query
    select e.id, o.shared
      from entries e
     cross join lateral (
       select count(*)::integer as shared from unnest(p_tags) t (tag) where t.tag = any (e.tags)) o
     where e.tenant_id = tenant and e.tags && p_tags and e.id <> p_without and o.shared >= 2
       and audience(e.readers) && principals
       and is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
       and (e.repeats is null or not repeats_another(e.id, e.repeats, e.text_hash, null))
     order by o.shared desc, e.updated_at desc, e.id
     limit p_limit;
end $$;
revoke all on function keyword.tag_overlaps(text[], uuid, integer) from public;
grant execute on function keyword.tag_overlaps(text[], uuid, integer) to kb_reader;

-- Entries derived from an entry, the newest first.
create or replace function keyword.derived_entries(p_source uuid, p_limit integer) returns table (entry_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
begin
  return query
    select e.id from entries e
     where e.tenant_id = tenant and e.source_ids @> array[p_source] and e.id <> p_source
       and audience(e.readers) && principals
       and is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
     order by e.created_at desc, e.id
     limit p_limit;
end $$;
revoke all on function keyword.derived_entries(uuid, integer) from public;
grant execute on function keyword.derived_entries(uuid, integer) to kb_reader;

reset role;
revoke create on schema keyword from kb_keyword;

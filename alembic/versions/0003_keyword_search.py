"""Full-text search that uses its index under row-level security, and the filter that all searches share."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0003"
down_revision = "0002"

# Operators such as @@ and && are not leakproof, so under a policy Postgres reads every row of the tenant
# instead of an index. These functions run as kb_keyword, whose policy lets the index be used, and keep
# tenants apart themselves: each one reads the tenant first, raises when there is none, and has the condition
# `tenant_id = tenant` in every query. They return ids and numbers, never content. Generic plans are forced: a
# custom one would be made anew for 32 partitions in each call, which costs more than the search.
UP = """
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
  metadata jsonb
);
comment on type entry_filter is 'What a search asks of an entry besides its text; a null field asks nothing';

create function entry_matches(e entries, f entry_filter) returns boolean
language sql stable parallel safe
return (e.expires_at is null or e.expires_at > now())
   and (e.superseded_by_id is null or f.include_superseded)
   and (f.roles is null or e.roles && f.roles)
   and (f.tags is null or case when f.all_tags then e.tags @> f.tags else e.tags && f.tags end)
   and (f.entry_types is null or e.entry_type = any (f.entry_types))
   and (f.min_confidence is null or e.confidence >= f.min_confidence)
   and (f.scope is null or e.scope = f.scope)
   and (f.source is null or (e.asset_id is not null) = (f.source = 'asset'))
   and (f.asset_ids is null or e.asset_id = any (f.asset_ids))
   and (f.metadata is null or e.metadata @> f.metadata);

revoke all on function entry_matches(entries, entry_filter) from public;
grant execute on function entry_matches(entries, entry_filter) to kb_app, kb_keyword;
grant usage on schema public to kb_keyword;
grant select on entries to kb_keyword;
create policy keyword_search on entries for select to kb_keyword using (true);

create schema keyword authorization current_user;
grant usage, create on schema keyword to kb_keyword;
set local role kb_keyword;

create function keyword.required_tenant() returns uuid
language plpgsql stable set search_path = pg_catalog, public, pg_temp
as $$
declare tenant uuid := current_tenant();
begin
  if tenant is null then
    raise exception 'no tenant is set' using errcode = 'insufficient_privilege';
  end if;
  return tenant;
end $$;

-- BM25 (Robertson and Zaragoza, 2009; k1 = 1.2, b = 0.75) over the ordinary tsvector.
--
-- ts_rank of a single lexeme with equal weights is (1 + 1/4 + 1/9 + … + 1/tf^2) / 1.64493406685, so the
-- number of occurrences tf is read back from it by width_bucket.
--
-- The work is bounded, however many entries hold a common word: entries are taken from the rarest lexemes, up to
-- p_budget postings; the p_pool of them whose lexemes weigh most are then scored by all lexemes of the query.
--
-- p_lexemes, p_languages and p_frequencies go together: a lexeme counts in entries of its language only.
-- A null frequency is counted here, up to p_budget. p_weights lowers what a lexeme is worth (null: 1). p_phrases are
-- whole queries of their own, in p_phrase_languages; an entry that matches one gains as from a word that occurs
-- twice. `unknown` holds the lexemes that no entry has. `best` is the score of an entry that covers the query:
-- each of its lexemes twice in an entry of mean length.
create function keyword.search(
  p_lexemes text[], p_languages text[], p_frequencies integer[], p_entries bigint, p_mean_length double precision,
  p_filter entry_filter, p_limit integer, p_budget integer, p_pool integer,
  p_weights double precision[] default null, p_phrases text[] default null, p_phrase_languages text[] default null)
returns table (entry_id uuid, updated_at timestamptz, score double precision, candidates bigint, best double precision,
               unknown text[])
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  occurrences constant double precision[] := (
    select array_agg((s.total - 1.0 / (2 * s.n * s.n)) / 1.64493406685 order by s.n)
      from (select n, sum(1.0 / (n * n)) over (order by n) as total from generate_series(1, 64) n) s);
  languages constant text[] := p_languages || coalesce(p_phrase_languages, '{}');
  queries tsquery[];
  frequencies bigint[];
  weights double precision[];
begin
  if coalesce(cardinality(p_lexemes), 0) = 0 then
    return;
  end if;
  select array_agg(w.query order by w.position), array_agg(w.frequency order by w.position)
    into queries, frequencies
    from (
      select t.position, q.query, coalesce(t.frequency, (
               select count(*) from (
                 select from entries e where e.tenant_id = tenant and e.lexemes @@ q.query limit p_budget) counted
             )) as frequency
        from (
          select l.lexeme, l.frequency, l.position, null as phrase
            from unnest(p_lexemes, p_frequencies) with ordinality l (lexeme, frequency, position)
          union all
          select null, null, cardinality(p_lexemes) + p.position, p.phrase
            from unnest(p_phrases) with ordinality p (phrase, position)) t
       cross join lateral (
         select coalesce(t.phrase, '''' || replace(replace(t.lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery as query) q
    ) w;
  select array_agg(coalesce(f.weight, 1) * ln(1 + (greatest(p_entries, f.frequency) - f.frequency + 0.5)
                                                  / (f.frequency + 0.5)) order by f.position)
    into weights
    from unnest(frequencies, p_weights) with ordinality f (frequency, weight, position);
  return query
    with words as materialized (
      select query, language, weight, frequency
        from unnest(queries, languages, weights, frequencies) w (query, language, weight, frequency)
    ), rarest as materialized (
      select r.query
        from (select u.query, row_number() over rarity as place, sum(u.frequency) over rarity as postings
                from (select query, max(frequency) as frequency from words where frequency > 0 group by query) u
              window rarity as (order by u.frequency, u.query::text)) r
       where r.place = 1 or r.postings <= p_budget
    ), postings as (
      select e.id, w.weight
        from words w
        join rarest r on r.query = w.query
       cross join lateral (
         select e.id from entries e
          where e.tenant_id = tenant and e.lexemes @@ w.query and e.language = w.language
            and entry_matches(e, p_filter)
          limit p_budget) e
    ), promising as materialized (
      select p.id, count(*) over () as candidates
        from (select id, sum(weight) as weight from postings group by id) p
       order by p.weight desc, p.id
       limit greatest(p_pool, p_limit)
    ), found as materialized (
      -- setweight makes one plain copy of a value that may be compressed, instead of one for each word.
      select e.id, e.updated_at, e.language, p.candidates, setweight(e.lexemes, 'D') as lexemes,
             0.3 + 0.9 * e.text_length / p_mean_length as length_norm
        from promising p
       cross join lateral (
         select x.id, x.updated_at, x.language, x.lexemes, x.text_length
           from entries x where x.tenant_id = tenant and x.id = p.id offset 0) e
    ), scored as (
      select f.id, f.updated_at, f.candidates, (
          select sum(w.weight * 2.2 * o.tf / (o.tf + f.length_norm))
            from words w
           cross join lateral (
             select case when numnode(w.query) > 1 then 2 * (f.lexemes @@ w.query)::integer
                         else width_bucket(ts_rank('{1,1,1,1}', f.lexemes, w.query)::double precision, occurrences)
                    end as tf) o
           where w.language = f.language and o.tf > 0) as score
        from found f
    )
    select s.id, s.updated_at, s.score, s.candidates,
           (select max(l.weight) * 2.2 * 2 / (2 + 1.2)
              from (select sum(w.weight) as weight from words w group by w.language) l),
           (select coalesce(array_agg(distinct u.lexeme), '{}')
              from unnest(p_lexemes, frequencies) u (lexeme, frequency) where u.frequency = 0 and u.lexeme is not null)
      from scored s
     order by s.score desc, s.updated_at desc, s.id
     limit p_limit;
end $$;

-- The entries that pass a filter, at most p_limit of them: one more than the caller can use says "too many".
create function keyword.filtered_ids(p_filter entry_filter, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  conditions text := '';
  ids uuid[];
begin
  -- Only the conditions that an index serves are spelled out; entry_matches checks all of them.
  if p_filter.tags is not null then
    conditions := conditions || case when p_filter.all_tags then ' and e.tags @> ($2).tags' else ' and e.tags && ($2).tags' end;
  end if;
  if p_filter.metadata is not null then
    conditions := conditions || ' and e.metadata @> ($2).metadata';
  end if;
  if p_filter.asset_ids is not null then
    conditions := conditions || ' and e.asset_id = any (($2).asset_ids)';
  end if;
  execute 'select array_agg(m.id) from (select e.id from entries e where e.tenant_id = $1' || conditions
          || ' and entry_matches(e, $2) limit $3) m'
    into ids using tenant, p_filter, p_limit;
  return coalesce(ids, '{}');
end $$;

-- Entries that share at least two of the given tags, by how many.
create function keyword.tag_overlaps(p_tags text[], p_without uuid, p_limit integer)
returns table (entry_id uuid, overlap_count integer)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare tenant constant uuid := keyword.required_tenant();
begin
  return query
    select e.id, o.shared
      from entries e
     cross join lateral (
       select count(*)::integer as shared from unnest(p_tags) t (tag) where t.tag = any (e.tags)) o
     where e.tenant_id = tenant and e.tags && p_tags and e.id <> p_without and o.shared >= 2
       and (e.expires_at is null or e.expires_at > now()) and e.superseded_by_id is null
     order by o.shared desc, e.updated_at desc, e.id
     limit p_limit;
end $$;

revoke all on all functions in schema keyword from public;
grant execute on function
  keyword.search(text[], text[], integer[], bigint, double precision, entry_filter, integer, integer, integer,
                 double precision[], text[], text[]),
  keyword.filtered_ids(entry_filter, integer),
  keyword.tag_overlaps(text[], uuid, integer) to kb_app;
reset role;
revoke create on schema keyword from kb_keyword;
grant usage on schema keyword to kb_app;
"""

DOWN = """
drop schema keyword cascade;
drop policy keyword_search on entries;
revoke select on entries from kb_keyword;
revoke usage on schema public from kb_keyword;
drop function entry_matches(entries, entry_filter);
drop type entry_filter;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)

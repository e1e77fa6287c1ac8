-- Full-text search that uses its index under row-level security.
--
-- Operators such as @@ and && are not leakproof, so under a policy Postgres reads all rows of the tenant instead of an
-- index. The functions of the schema keyword run as kb_keyword, whose policy allows the use of the index, and isolate
-- tenants themselves: each function reads the tenant first, raises an error if there is none, and has the condition
-- `tenant_id = tenant` in every query. They return ids and numbers, never content. Generic plans are forced: planning
-- for 32 partitions in each call would cost more than the search.

grant select on entries to kb_keyword;
create policy keyword_search on entries for select to kb_keyword using (true);

create schema keyword authorization current_user;
grant usage on schema keyword to kb_app, kb_keyword;
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

-- BM25 (Robertson and Zaragoza, 2009; k1 = 1.2, b = 0.75) over the ordinary tsvector.
--
-- ts_rank of a single lexeme with equal weights is (1 + 1/4 + 1/9 + … + 1/tf^2) / 1.64493406685, so
-- width_bucket recovers the number of occurrences tf from it. `occurrences` are the lower bounds of its values for
-- 1, 2, … 64 occurrences. They are a constant, since computing them took a tenth of a call.
--
-- The work is bounded, regardless of how many entries contain a common word. Candidates come from the rarest lexemes, up
-- to p_budget postings. The p_pool candidates that would score best if each lexeme occurred once (a lower bound that
-- accounts for rare words and short entries) are then scored by all lexemes of the query. If even the rarest lexeme
-- exceeds the budget, entries that contain it together with another lexeme are added. If it exceeds 20 budgets, reading
-- its postings in the index would take too long by itself, and the newest entries are scanned instead. Where this yields
-- fewer than p_limit candidates, lexemes were left out, and an indexed condition of the filter leaves fewer entries than
-- the budget, the candidates are all of these entries that have a lexeme.
--
-- p_lexemes, p_languages and p_frequencies are parallel arrays: a lexeme counts only in entries of its language.
-- A null frequency is counted here, up to p_budget. p_weights reduces the weight of a lexeme (null: 1). p_phrases are
-- complete queries, in p_phrase_languages; an entry that matches one gains as much as from a word that occurs twice.
-- `unknown` contains the lexemes that no entry has, in the language in which most lexemes are known: a query in English
-- is not misspelt because the tenant also has German entries. `best` is the score of an entry that covers the query:
-- each of its lexemes twice in an entry of mean length. `complete`: every entry with one of the lexemes was scored by all
-- of them. If none was found and not every one was scored, there is one row without an entry.
create or replace function keyword.search(
  p_lexemes text[], p_languages text[], p_frequencies integer[], p_entries bigint, p_mean_length double precision,
  p_filter entry_filter, p_limit integer, p_budget integer, p_pool integer,
  p_weights double precision[] default null, p_phrases text[] default null, p_phrase_languages text[] default null)
returns table (entry_id uuid, updated_at timestamptz, score double precision, candidates bigint, best double precision,
               unknown text[], complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  occurrences constant double precision[] := '{0.3039635509,0.6839179896,0.7936826052,0.8464540550,0.8776103190,0.8982122930,0.9128590627,0.9238118310,0.9323138979,0.9391061698,0.9446579008,0.9492808543,0.9531903132,0.9565397485,0.9594415321,0.9619798388,0.9642189734,0.9662089095,0.9679890729,0.9695909861,0.9710401547,0.9723574383,0.9735600625,0.9746623773,0.9756764334,0.9766124253,0.9774790352,0.9782837034,0.9790328431,0.9797320115,0.9803860480,0.9809991866,0.9815751477,0.9821172137,0.9826282914,0.9831109647,0.9835675378,0.9840000721,0.9844104177,0.9848002395,0.9851710398,0.9855241778,0.9858608862,0.9861822856,0.9864893971,0.9867831526,0.9870644050,0.9873339360,0.9875924633,0.9878406475,0.9880790970,0.9883083737,0.9885289968,0.9887414473,0.9889461710,0.9891435820,0.9893340652,0.9895179790,0.9896956575,0.9898674126,0.9900335356,0.9901942991,0.9903499583,0.9905007525}';
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
         select coalesce(t.phrase, '''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''')::tsquery as query) q
    ) w;
  select array_agg(coalesce(f.weight, 1) * ln(1 + (greatest(p_entries, f.frequency) - f.frequency + 0.5)
                                                  / (f.frequency + 0.5)) order by f.position)
    into weights
    from unnest(frequencies, p_weights) with ordinality f (frequency, weight, position);
  return query
    with words as materialized (
      select query, language, weight, frequency
        from unnest(queries, languages, weights, frequencies) w (query, language, weight, frequency)
    ), ranked as materialized (
      select u.query, u.frequency, row_number() over rarity as place, sum(u.frequency) over rarity <= p_budget as fits
        from (select query, max(frequency) as frequency from words where frequency > 0 group by query) u
      window rarity as (order by u.frequency, u.query::text)
    ), first_left_out as materialized (
      select r.query, r.place from ranked r where r.place = 1 and not r.fits and r.frequency <= 20 * p_budget
    ), drivers as materialized (
      select w.query, w.language, w.weight, false as together
        from ranked r join words w on w.query = r.query
       where r.fits or (r.place = 1 and r.frequency <= 20 * p_budget)
      union all
      select (format('(%s) & (%s)', l.query, string_agg(w.query::text, ' | ')))::tsquery, w.language,
             min(w.weight) + max(o.weight), true
        from first_left_out l
        join words o on o.query = l.query
        join words w on w.language = o.language
        join ranked r on r.query = w.query and r.place > l.place
       group by l.query, w.language
    ), driven as materialized (
      -- A query that is the same in several languages is looked up once.
      select e.id, d.weight, d.together, e.text_length, e.updated_at
        from (select distinct query, together from drivers) q
       cross join lateral (
         select e.id, e.text_length, e.language, e.updated_at from entries e
          where e.tenant_id = tenant and e.lexemes @@ q.query and entry_matches(e, p_filter)
          limit case when q.together then p_budget / 2 else p_budget end) e
        join drivers d on d.query = q.query and d.language = e.language
      union all
      -- For a very frequent word, the newest entries are sufficient.
      select e.id, w.weight, false, e.text_length, e.updated_at
        from ranked r
        join words w on w.query = r.query
       cross join lateral (
         select n.id, n.text_length, n.updated_at
           from (select e.id, e.text_length, e.lexemes, e.language, e.updated_at from entries e
                  where e.tenant_id = tenant and entry_matches(e, p_filter)
                  order by e.id desc limit 4 * p_budget) n
          where n.lexemes @@ w.query and n.language = w.language) e
       where r.place = 1 and r.frequency > 20 * p_budget
    ), few as materialized (
      select case when (p_filter.tags is not null or p_filter.metadata is not null or p_filter.asset_ids is not null)
                       and exists (select from ranked where not fits)
                       and (select count(*) from (select from driven group by id) found) < p_limit
                  then keyword.filtered_ids(p_filter, p_budget) end as ids
    ), admitted as materialized (
      select ids from few where cardinality(ids) < p_budget
    ), postings as (
      select * from driven where not exists (select from admitted)
      union all
      select e.id, w.weight, false, e.text_length, e.updated_at
        from admitted
       cross join unnest(admitted.ids) a (id)
       cross join lateral (
         select x.id, x.text_length, x.lexemes, x.language, x.updated_at
           from entries x where x.tenant_id = tenant and x.id = a.id offset 0) e
        join words w on w.language = e.language and e.lexemes @@ w.query
    ), promising as materialized (
      select p.id, count(*) over () as candidates
        from (select id, greatest(sum(weight) filter (where not together), max(weight) filter (where together))
                         / (1.3 + 0.9 * min(text_length) / p_mean_length) as weight, max(updated_at) as updated_at
                from postings group by id) p
       order by p.weight desc, p.updated_at desc, p.id
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
           (select sum(w.weight) * 2.2 * 2 / (2 + 1.2) from words w group by w.language
             order by count(*) filter (where w.frequency = 0), count(*) desc limit 1),
           (select coalesce(array_agg(distinct u.lexeme) filter (where u.frequency = 0), '{}')
              from unnest(p_lexemes, p_languages, frequencies) u (lexeme, language, frequency)
             where u.lexeme is not null
             group by u.language order by count(*) filter (where u.frequency = 0), count(*) desc limit 1),
           c.complete
      from (select (exists (select from admitted) or coalesce(bool_and(r.fits), true))
                   and coalesce((select max(p.candidates) from promising p), 0)
                       <= least(greatest(p_pool, p_limit), p_budget - 1) as complete
              from ranked r where numnode(r.query) = 1) c
      left join scored s on true
     where s.id is not null or not c.complete
     order by s.score desc, s.updated_at desc, s.id
     limit p_limit;
end $$;
revoke all on function keyword.search(text[], text[], integer[], bigint, double precision, entry_filter, integer, integer,
                                  integer, double precision[], text[], text[]) from public;
grant execute on function keyword.search(text[], text[], integer[], bigint, double precision, entry_filter, integer, integer,
                                  integer, double precision[], text[], text[]) to kb_app;

-- The entries that pass a filter, at most p_limit. Callers pass one more than they can use, to detect "too many".
create or replace function keyword.filtered_ids(p_filter entry_filter, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
  tenant constant uuid := keyword.required_tenant();
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
  execute 'select array_agg(m.id) from (select e.id from entries e where e.tenant_id = $1' || conditions
          || ' and entry_matches(e, $2) limit $3) m'
    into ids using tenant, p_filter, p_limit;
  return coalesce(ids, '{}');
end $$;
revoke all on function keyword.filtered_ids(entry_filter, integer) from public;
grant execute on function keyword.filtered_ids(entry_filter, integer) to kb_app;

-- Entries that share at least two of the given tags, by their number.
create or replace function keyword.tag_overlaps(p_tags text[], p_without uuid, p_limit integer)
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
       and (e.repeats is null or not repeats_another(e.id, e.repeats, e.text_hash, null))
     order by o.shared desc, e.updated_at desc, e.id
     limit p_limit;
end $$;
revoke all on function keyword.tag_overlaps(text[], uuid, integer) from public;
grant execute on function keyword.tag_overlaps(text[], uuid, integer) to kb_app;

-- Entries derived from an entry, the newest first.
create or replace function keyword.derived_entries(p_source uuid, p_limit integer) returns table (entry_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare tenant constant uuid := keyword.required_tenant();
begin
  return query
    select e.id from entries e
     where e.tenant_id = tenant and e.source_ids @> array[p_source] and e.id <> p_source
       and (e.expires_at is null or e.expires_at > now()) and e.superseded_by_id is null
     order by e.created_at desc, e.id
     limit p_limit;
end $$;
revoke all on function keyword.derived_entries(uuid, integer) from public;
grant execute on function keyword.derived_entries(uuid, integer) to kb_app;

reset role;
revoke create on schema keyword from kb_keyword;

-- The keyword leg of a search. Like the functions of keyword_lookups.sql, these run as kb_keyword and isolate tenants
-- and readers themselves: what an entry that the caller may not read has changes no number.

grant create on schema keyword to kb_keyword;
set local role kb_keyword;

-- BM25 (Robertson and Zaragoza, 2009; k1 = 1.2, b = 0.75). With K = 0.3 + 0.9 * length / mean length, a word that occurs tf
-- times scores idf * 2.2 * tf / (tf + K) = idf * 2.2 / (1 + K) * (1 + K * (tf - 1) / (tf + K)). The last fraction is computed
-- as (tf - 1) / (tf + 1.2) * 5.2 / (4 + K), which is equal in an entry of mean length and differs little in others. So both
-- sums over the words are inner products with `word_weights`, which depend on no other entry.
--
-- If the words have at most p_budget postings together, every entry with one of them is scored. Otherwise the entries are
-- those in which the words weigh much together: as much as two average ones, or 60 % of the query. At most two budgets of
-- these are scored, and if there are more, those in which the words weigh half as much again. If fewer than p_limit or 150
-- are found, 60 % of the weight is sufficient; after that, if tags, assets, times, metadata, conditions or phrases leave fewer entries
-- than the budget, all of these are scored; and after that, p_budget entries with the rarest words. If even the rarest lexeme
-- exceeds 20 budgets, reading its postings in the index would take too long by itself, and the newest entries are scanned
-- instead.
--
-- p_lexemes, p_languages and p_frequencies are parallel arrays: a lexeme counts only in entries of its language. A null
-- frequency is counted here, up to p_budget. p_weights reduces the weight of a lexeme (null: 1). p_phrases are complete
-- queries, in p_phrase_languages; an entry that matches one gains as much as from a word that occurs twice. p_alternatives
-- are queries for entries that do not have the lexeme of p_alternative_words but something that stands for it, in
-- p_alternative_languages (null: in any language). They count p_alternative_weights times as much as the lexeme, and of
-- several for one lexeme the best counts. An unknown lexeme with an alternative is not unknown. `candidates` is the number of
-- entries with one of the words that were scored. `unknown` contains the lexemes that no entry has, in the language in which
-- most lexemes are known: a query in English is not misspelt because the tenant also has German entries. `best` is the score
-- of an entry that covers the query: each of its lexemes twice in an entry of mean length. `complete`: every entry with one
-- of the lexemes was scored. Entries that have a lexeme in another language are read without a score, and count for the
-- limits. With `as_of` in the filter, former versions of that time are scored too, and the frequency of a word that no entry
-- has any more is theirs. If indexes find at most five budgets of them that the filter may leave, those are looked at;
-- otherwise at most four budgets in each step, two of which are scored. `alternatives` are those that an entry matches. If none
-- was found and not every one was scored, one row has no entry.
create or replace function keyword.search(
  p_tenant uuid, p_lexemes text[], p_languages text[], p_frequencies integer[], p_entries bigint,
  p_mean_length double precision, p_filter entry_filter, p_limit integer, p_budget integer,
  p_weights double precision[] default null, p_phrases text[] default null, p_phrase_languages text[] default null,
  p_alternatives text[] default null, p_alternative_languages text[] default null,
  p_alternative_words text[] default null, p_alternative_weights double precision[] default null)
returns table (entry_id uuid, updated_at timestamptz, score double precision, candidates bigint, best double precision,
               unknown text[], complete boolean, alternatives text[], pattern bigint)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_indexscan = off set cpu_index_tuple_cost = 0.5
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
  frequencies bigint[] := p_frequencies;
  phrase_frequencies bigint[];
  weights double precision[];
  phrase_weights double precision[];
  others tsquery[];
  other_texts text[];
  other_languages text[];
  other_words text[];
  other_weights double precision[];
  other_frequency bigint;
  rare_others tsquery;
  matched sparsevec; repeated sparsevec;
  words text[];
  word_weights double precision[];
  word_frequencies bigint[];
  at constant timestamptz := coalesce(p_filter.as_of, now());
  weight double precision;
  squares double precision;
  full_match double precision;
  missing text[]; rare tsquery;
  wanted tsquery;
  searched tsquery;
  admitted uuid[];
  then_all entry_filter;
  former uuid[];
  former_are_cut boolean;
  ids uuid[] := '{}';
  times timestamptz[] := '{}';
  scores double precision[] := '{}';
  patterns bigint[] := '{}';
  scored bigint := 0;
  read bigint;
  enough constant bigint := greatest(p_limit, least(150, p_budget));
  is_complete boolean;
begin
  if p_tenant is distinct from tenant then
    raise exception 'another tenant is set' using errcode = 'insufficient_privilege';
  end if;
  if coalesce(cardinality(p_lexemes), 0) = 0 then return; end if;
  if p_frequencies is null or array_position(p_frequencies, null) is not null then
    select array_agg(coalesce(w.frequency, (
             select count(*) from (
               select from entries e
                where e.tenant_id = tenant and e.lexemes @@ keyword.word_query(w.lexeme)::tsquery
                  and audience(e.readers) && principals and is_live(e.quarantined, e.expires_at, at)
                limit p_budget + 1) counted)) order by w.position)
      into frequencies
      from unnest(p_lexemes, p_frequencies) with ordinality w (lexeme, frequency, position);
  end if;
  if p_filter.as_of is not null then
    then_all.include_superseded := true; then_all.as_of := p_filter.as_of;
    frequencies := array(select case when w.frequency > 0 then w.frequency else (
        select count(o.id) from keyword.former_words(then_all, keyword.word_query(w.lexeme)::tsquery, null, p_budget + 1) o) end
      from unnest(p_lexemes, frequencies) with ordinality w (lexeme, frequency, position) order by w.position);
    then_all.include_superseded := p_filter.include_superseded; then_all.all_tags := p_filter.all_tags;
    if p_filter::text <> then_all::text then
      former := keyword.former_ids(p_filter, 5 * p_budget);
    end if;
  end if;
  if p_phrases is not null then
    select array_agg(c.frequency order by c.position),
           array_agg(ln(1 + (greatest(p_entries, c.frequency) - c.frequency + 0.5) / (c.frequency + 0.5))
                     order by c.position),
           string_agg('(' || c.phrase || ')', ' | ') filter (where c.frequency between 1 and p_budget)::tsquery
      into phrase_frequencies, phrase_weights, rare
      from (select p.position, p.phrase, (
                     select count(*) from (
                       select from entries e where e.tenant_id = tenant and e.lexemes @@ p.phrase::tsquery
                        and audience(e.readers) && principals and is_live(e.quarantined, e.expires_at, at)
                       limit p_budget + 1) counted) as frequency
              from unnest(p_phrases) with ordinality p (phrase, position)) c;
  end if;
  if p_alternatives is not null then
    select array_agg(c.query::tsquery order by c.position), array_agg(c.language order by c.position),
           array_agg(c.word order by c.position), array_agg(c.weight order by c.position), sum(c.frequency),
           array_agg(c.query order by c.position),
           string_agg('(' || c.query || ')', ' | ') filter (where c.frequency <= p_budget)::tsquery
      into others, other_languages, other_words, other_weights, other_frequency, other_texts, rare_others
      from (select a.query, a.language, a.word, a.position, f.frequency,
                   a.weight * least(r.weight, ln(1 + (greatest(p_entries, f.frequency) - f.frequency + 0.5)
                                                     / (f.frequency + 0.5))) as weight
              from unnest(p_alternatives, p_alternative_languages, p_alternative_words, p_alternative_weights)
                   with ordinality a (query, language, word, weight, position)
             cross join lateral (
               select count(*) as frequency
                 from (select from entries e where e.tenant_id = tenant and e.lexemes @@ a.query::tsquery
                         and audience(e.readers) && principals and is_live(e.quarantined, e.expires_at, at)
                        limit p_budget + 1) counted) f
             cross join lateral (
               select max(ln(1 + (greatest(p_entries, w.frequency) - w.frequency + 0.5) / (w.frequency + 0.5))) as weight
                 from unnest(p_lexemes, p_languages, frequencies) w (lexeme, language, frequency)
                where w.lexeme = a.word and w.language = coalesce(a.language, w.language)) r
             where f.frequency > 0) c;
    rare := coalesce(rare || rare_others, rare, rare_others);
  end if;
  with known as materialized (
    select w.lexeme, w.language, w.frequency, w.position, o.weight as other_weight,
           coalesce(w.weight, 1) * ln(1 + (greatest(p_entries, w.frequency) - w.frequency + 0.5) / (w.frequency + 0.5))
             as weight
      from unnest(p_lexemes, p_languages, frequencies, p_weights) with ordinality
           w (lexeme, language, frequency, weight, position)
      left join lateral (
        select max(x.weight) as weight from unnest(other_words, other_languages, other_weights) x (word, language, weight)
         where x.word = w.lexeme and coalesce(x.language, w.language) = w.language) o on others is not null
  ), parts as (
    -- An alternative covers a lexeme that no entry has.
    select lexeme, language, case when frequency = 0 and other_weight is not null then 1 else frequency end as frequency,
           case when frequency = 0 then coalesce(other_weight, weight) else weight end as weight
      from known
    union all
    select null, p.language, p.frequency, p.weight
      from unnest(p_phrase_languages, phrase_frequencies, phrase_weights) p (language, frequency, weight)
  ), vectors as (
    select ('{' || string_agg(p.place || ':' || p.weight, ',') || '}/536870912')::sparsevec as matched,
           ('{' || string_agg(p.place + 268435456 || ':' || p.weight, ',') || '}/536870912')::sparsevec as repeated
      from (select word_place(language, lexeme) as place, sum(weight)::real as weight
              from known where frequency > 0 group by 1) p
  ), ranked as (
    select array_agg(r.query order by r.weight desc, r.query) as words,
           array_agg(r.weight order by r.weight desc, r.query) as word_weights,
           array_agg(r.frequency order by r.weight desc, r.query) as word_frequencies,
           sum(r.weight) as weight, sum(r.weight * r.weight) as squares
      from (select keyword.word_query(lexeme) as query, max(frequency) as frequency, max(weight) as weight
              from known where frequency > 0 group by lexeme) r
  ), covered as (
    select sum(weight) * 2.2 * 2 / (2 + 1.2) as full_match,
           coalesce(array_agg(distinct lexeme) filter (where frequency = 0 and lexeme is not null), '{}') as missing
      from parts group by language
     order by count(*) filter (where frequency = 0), count(*) desc limit 1
  )
  select (select array_agg(k.weight order by k.position) from known k), v.matched, v.repeated, r.words, r.word_weights, r.word_frequencies, r.weight, r.squares,
         c.full_match, c.missing
    into weights, matched, repeated, words, word_weights, word_frequencies, weight, squares, full_match, missing
    from vectors v, ranked r, covered c;
  if words is null and others is null then
    return;
  end if;
  is_complete := coalesce((select sum(f) from unnest(word_frequencies) f), 0) + coalesce(other_frequency, 0) <= p_budget;
  for step in 1 .. 5 loop
    exit when step > 2 and scored >= enough;
    wanted := null;
    admitted := null;
    if step <= 3 then
      continue when step = 2 and scored < 2 * p_budget;
      if is_complete then
        wanted := array_to_string(words || other_texts, ' | ')::tsquery;
      else
        wanted := keyword.combined_query(coalesce(words, '{}'), word_weights, word_frequencies,
                                         least(0.6 * weight, 2 * squares / weight)
                                           * case step when 1 then 1 when 2 then 1.5 else 0.6 end, p_budget);
        if rare is not null then
          wanted := coalesce(wanted || rare, rare);
        end if;
      end if;
      continue when wanted is null or wanted = searched;
      searched := wanted;
    elsif step = 4 then
      continue when p_filter.tags is null and p_filter.metadata is null and p_filter.asset_ids is null
                and p_filter.condition is null and p_filter.created is null and p_filter.updated is null
                and p_filter.required is null;
      admitted := keyword.filtered_ids(p_filter, p_budget);
      continue when cardinality(admitted) >= p_budget;
      is_complete := p_filter.as_of is null or former is not null;
    else
      select string_agg(r.word, ' | ') filter (where r.place = 1 or r.total <= p_budget)::tsquery into wanted
        from (select word, row_number() over rarity as place, sum(frequency) over rarity as total
                from unnest(words, word_frequencies) w (word, frequency) where frequency <= 20 * p_budget
              window rarity as (order by frequency, word)) r;
      if others is not null then
        wanted := coalesce(wanted || array_to_string(other_texts, ' | ')::tsquery, array_to_string(other_texts, ' | ')::tsquery);
      end if;
      if wanted is null then  -- For very frequent words, the newest entries are sufficient.
        admitted := keyword.newest_ids(p_filter, 4 * p_budget);
      end if;
    end if;
    select coalesce(array_agg(b.id order by b.score desc, b.updated_at desc, b.id) filter (where b.score > 0), '{}'),
           coalesce(array_agg(b.updated_at order by b.score desc, b.updated_at desc, b.id) filter (where b.score > 0), '{}'),
           coalesce(array_agg(b.score order by b.score desc, b.updated_at desc, b.id) filter (where b.score > 0), '{}'),
           coalesce(array_agg(b.pattern order by b.score desc, b.updated_at desc, b.id) filter (where b.score > 0), '{}'),
           greatest(scored, max(b.number)), max(b.read), coalesce(bool_or(b.is_cut), false)
      into ids, times, scores, patterns, scored, read, former_are_cut
      from (
        select a.id, a.updated_at, a.score, a.pattern, count(*) filter (where a.score > 0) over () as number, count(a.id) over () as read,
               bool_or(a.id is null) over () as is_cut
          from (
            select k.id, k.updated_at, k.score, k.pattern from unnest(ids, times, scores, patterns) k (id, updated_at, score, pattern)
            union all
            select e.id, e.updated_at,
                   2.2 / (1 + e.k) * (s.matched + s.phrase + 5.2 * e.k / (4 + e.k) * (s.repeated + s.phrase / 3.2)), e.pattern
              from (
                select x.id, x.updated_at, x.word_weights, x.lexemes, x.language, x.pattern,
                       0.3 + 0.9 * x.text_length / p_mean_length as k
                  from (
                    (select w.id, w.updated_at, w.word_weights, w.lexemes, w.language, w.text_length, w.pattern
                       from entries w
                      where wanted is not null and w.tenant_id = tenant and w.lexemes @@ wanted
                        and audience(w.readers) && principals
                        and entry_matches(w, p_filter) and w.id <> all (ids)
                      limit case when step = 5 then p_budget else 2 * p_budget end)
                    union all
                    select f.id, f.updated_at, f.word_weights, f.lexemes, f.language, f.text_length, f.pattern
                      from entries f
                     where f.tenant_id = tenant and f.id = any (admitted) and f.id <> all (ids)
                    union all
                    select o.id, o.updated_at, o.word_weights, o.lexemes, o.language, o.text_length, o.pattern
                      from keyword.former_words(p_filter, case when step <> 4 then wanted end, former, 2 * p_budget) o
                     where p_filter.as_of is not null and (step <> 4 or former is not null)
                       and (o.id is null or o.id <> all (ids))) x
                offset 0) e
             cross join lateral (
               select case when e.word_weights is null
                           then keyword.sum_words(e.lexemes, e.language, p_lexemes, p_languages, weights) end as sums,
                      case when p_phrases is null then 0 else coalesce((
                        select sum(p.weight)
                          from unnest(p_phrases, p_phrase_languages, phrase_weights) p (phrase, language, weight)
                         where p.language = e.language and e.lexemes @@ p.phrase::tsquery), 0) end as phrase,
                      case when others is not null then (
                        select array[sum(b.weight), sum(b.weight * (b.tf - 1) / (b.tf + 1.2))]
                          from (select distinct on (o.word) o.weight, greatest(1, ts_rank_cd('{1,1,1,1}', e.lexemes, o.query)) as tf
                                  from unnest(others, other_words, other_languages, other_weights) o (query, word, language, weight)
                                 where coalesce(o.language, e.language) = e.language and e.lexemes @@ o.query
                                 order by o.word, o.weight desc) b) end as others
             ) t
             cross join lateral (
               select coalesce(t.sums[1], -(e.word_weights <#> matched), 0) + coalesce(t.others[1], 0) as matched,
                      coalesce(t.sums[2], -(e.word_weights <#> repeated), 0) + coalesce(t.others[2], 0) as repeated,
                      t.phrase) s) a
         order by a.score desc, a.updated_at desc, a.id limit p_limit) b;
    -- More entries than the frequencies promised are not all read.
    is_complete := is_complete and (step > 1 or coalesce(read, 0) < 2 * p_budget) and not former_are_cut;
    exit when is_complete or step = 1 and scored between enough and 2 * p_budget - 1;
  end loop;
  if scored = 0 and not is_complete then
    return query select null::uuid, null::timestamptz, null::double precision, 0::bigint, full_match, missing, false,
                        other_texts, null::bigint;
    return;
  end if;
  return query
    select u.id, u.updated_at, u.score, scored, full_match, missing, is_complete, other_texts, u.pattern
      from unnest(ids, times, scores, patterns) with ordinality u (id, updated_at, score, pattern, place)
     order by u.place;
end $$;
revoke all on function keyword.search(uuid, text[], text[], integer[], bigint, double precision, entry_filter, integer,
                                  integer, double precision[], text[], text[], text[], text[], text[],
                                  double precision[]) from public;
grant execute on function keyword.search(uuid, text[], text[], integer[], bigint, double precision, entry_filter, integer,
                                  integer, double precision[], text[], text[], text[], text[], text[],
                                  double precision[]) to kb_reader;

reset role;
revoke create on schema keyword from kb_keyword;

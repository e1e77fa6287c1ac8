-- The keyword leg, spelling correction, and the filter.

-- name: keyword_leg
-- Converts the query to lexemes once for each language of the tenant, looks up their frequencies, and calls the keyword
-- function for the best entries. Beyond 200 lexemes of a language, more lexemes cost time and do not improve results.
with corpus as (
  select coalesce(sum(entries), 0)::bigint as entries,
         (coalesce(sum(characters), 0) / greatest(coalesce(sum(entries), 0), 1))::double precision as mean_length
    from corpus_statistics where tenant_id = :tenant_id
), words as (
  select l.language, w.lexeme, w.weight, w.cut, s.entries as frequency
    from corpus_statistics l
   cross join lateral (
     (select u.lexeme, 1.0::double precision as weight, count(*) over () > 200 as cut
        from unnest(text_lexemes(l.language, :words) || identifier_lexemes(:query)) u
       order by u.positions[1] nulls first limit 200)
     union all
     select c, :correction_weight::double precision, false from unnest(:corrections::text[]) c) w
    left join lexeme_statistics s on s.tenant_id = :tenant_id and s.lexeme = w.lexeme
   where l.tenant_id = :tenant_id and l.entries > 0
), phrases as (
  select l.language, q.phrase
    from corpus_statistics l
   cross join unnest(:phrases::text[]) p
   cross join lateral (select text_phrase(l.language, p) as phrase) q
   where l.tenant_id = :tenant_id and l.entries > 0 and numnode(q.phrase) > 1
)
select k.entry_id, k.updated_at, k.score, k.candidates, k.best, k.unknown,
       coalesce(k.complete, true) and not coalesce(w.cut, false) as complete
  from corpus
 cross join (select array_agg(lexeme) as lexemes, array_agg(language) as languages,
                    array_agg(frequency) as frequencies, array_agg(weight) as weights, bool_or(cut) as cut
               from words) w
 cross join (select array_agg(phrase::text) as phrases, array_agg(language) as languages from phrases) p
  left join lateral keyword.search(:tenant_id, w.lexemes, w.languages, w.frequencies, corpus.entries,
                                  greatest(corpus.mean_length, 1), :filter, :limit, :budget,
                                  w.weights, p.phrases, p.languages) k on true;

-- name: rehearse_keyword_leg
-- Searches for a word that no tenant has, only to make the function cache its plans.
select count(*) from keyword.search(:tenant_id, array['rehearsal'], array['english'], array[1], 1, 1, :filter, 1, 1);

-- name: similar_lexemes
-- For each word of the query that no entry has, the tenant's most similar word. The vocabulary is lexeme_statistics or,
-- for a small tenant without statistics, its entries. Comparing is the main cost: only the five longest words are
-- looked up, each among the 3,000 most used words of similar length. Neither vocabulary is complete, so the entries are
-- checked at the end, without the search's filter: a word that one of them has is spelt correctly.
with stock as (
  select coalesce(sum(entries), 0) as entries from corpus_statistics where tenant_id = :tenant_id
), vocabulary as materialized (
  select s.word as lexeme, s.ndoc as entries
    from stock, ts_stat(case when stock.entries < 1000
      then format('select lexemes from public.entries where tenant_id = %L', :tenant_id::uuid)
      else 'select null::tsvector where false' end) s
), words as materialized (
  select d.lexeme
    from (select distinct u.lexeme collate "C" as lexeme
            from corpus_statistics l cross join lateral unnest(text_lexemes(l.language, :query)) u
           where l.tenant_id = :tenant_id and l.entries > 0) d
   where length(d.lexeme) between 4 and 40 and d.lexeme !~ '[0-9]'
     and not exists (select from lexeme_statistics k where k.tenant_id = :tenant_id and k.lexeme = d.lexeme)
     and (:unknown::text[] is null or d.lexeme = any (:unknown::text[]))
   order by length(d.lexeme) desc, d.lexeme limit 5
)
select w.lexeme as misspelt, near.lexeme as correction
  from words w
 cross join lateral (
   select c.lexeme
     from (select v.lexeme, v.entries, similarity(v.lexeme, w.lexeme) as likeness
             from (select o.lexeme, o.entries
                     from (select lexeme, entries from vocabulary
                           union all
                           -- First letters are rarely wrong, and the range keeps the search short.
                           select lexeme, entries from lexeme_statistics
                            where tenant_id = :tenant_id and lexeme >= left(w.lexeme, 1)
                              and lexeme < left(w.lexeme, 1) || chr(1114111)) o
                    where abs(length(o.lexeme) - length(w.lexeme)) <= 2
                    order by o.entries desc, o.lexeme limit 3000) v
           offset 0) c
    where c.likeness >= 0.4
    order by c.likeness desc, c.entries desc, c.lexeme limit 1) near
 where near.lexeme <> w.lexeme
   and not exists (
     select from (select array_agg(language) as names from corpus_statistics
                   where tenant_id = :tenant_id and entries > 0) l
      cross join lateral keyword.search(
        :tenant_id, array_fill(w.lexeme, array[cardinality(l.names)]), l.names, null, 1, 1,
        row(true, null, null, null, null, null, null, null, null, null)::entry_filter, 1, 1) k
      where k.entry_id is not null);

-- name: entries_with_lexemes
-- For each lexeme, one of the entries that have it: the first in the order of `ids`.
select distinct on (c.lexeme) c.lexeme, e.language, e.title, left(e.content, 20000) as content
  from unnest(:ids::uuid[]) with ordinality wanted (id, place)
  join entries e on e.tenant_id = :tenant_id and e.id = wanted.id
  join unnest(:lexemes::text[]) c (lexeme) on c.lexeme = any (tsvector_to_array(e.lexemes))
 order by c.lexeme, wanted.place;

-- name: filtered_ids
select keyword.filtered_ids(:filter, :limit);

-- The keyword leg, spelling correction, the filter, and the values that all matches of a search have, with counts.

-- name: keyword_leg
-- Converts the query to lexemes once for each language of the tenant, looks up their frequencies, and calls the keyword
-- function for the best entries. Beyond 200 lexemes of a language, more lexemes cost time and do not improve results.
-- Corrections replace misspelt lexemes, and completions are queries for entries with a word that begins with the last one.
-- Compounds are looked for only in languages that write them as one word, and only if the query has few other words: those
-- of a longer question find its entry by themselves. A word in another spelling has no such limit. A lexeme in capitals counts half:
-- the same word in lowercase is asked for too. A query of nothing but stop words, whose lexemes have no positions, is a phrase too.
-- That the queries are matched once, before their join, is what keeps this fast.
with languages as materialized (
  select language, sum(entries)::bigint as entries, sum(characters)::bigint as characters
    from corpus_statistics where tenant_id = :tenant_id and principal = any (current_principals()) group by language
), corpus as (
  select coalesce(sum(entries), 0)::bigint as entries,
         (coalesce(sum(characters), 0) / greatest(coalesce(sum(entries), 0), 1))::double precision as mean_length
    from languages
), words as (
  select l.language, w.lexeme, w.weight, w.is_placed, w.cut, s.frequency
    from languages l
   cross join lateral (
     (select u.lexeme, case when u.lexeme ~ '[A-Z]' then 0.5 else 1.0 end::double precision as weight,
             u.positions is not null as is_placed, count(*) over () > 200 as cut
        from unnest(asked_lexemes(l.language, :words, :query)) u
       order by u.positions[1] nulls first limit 200)
     union all
     select c, :correction_weight::double precision, null, false from unnest(:corrections::text[]) c) w
   cross join lateral (
     -- Of entries with readers, only the frequencies of words that are too frequent to be counted are good enough.
     select case when bool_and(s.principal = 'everyone') or sum(s.entries) > :budget::integer then least(sum(s.entries), 1000000000)::integer end as frequency
       from lexeme_statistics s
      where s.tenant_id = :tenant_id and s.lexeme = w.lexeme and s.principal = any (current_principals())) s
   where (l.entries > 0 or (:filter::entry_filter).as_of is not null) and w.lexeme <> all (:misspelt::text[])
), possible as materialized (
  select x.language, row_number() over (partition by x.language) as place, x.query, x.replaced, x.asked, x.lexemes
    from (select l.language, p.query, p.replaced, p.asked, p.lexemes
            from languages l cross join lateral possible_compounds(l.language, :compound_words::text[]) p
           where (l.entries > 0 or (:filter::entry_filter).as_of is not null) and linking_letters(l.language) is not null
             and (select count(*) from words w where w.language = l.language) <= :compound_limit::integer
          union all
          select l.language, q.query, f.replaced, array[s.term], f.lexemes
            from languages l
           cross join unnest(:spelt::text[], :spellings::text[]) s (term, spelling)
           cross join lateral (
             select tsvector_to_array(asked_lexemes(l.language, s.term, s.term)) as replaced,
                    case when s.spelling ~ '^[A-Z][a-z]$' then array[s.spelling]
                         else tsvector_to_array(text_lexemes(l.language, s.spelling)) end as lexemes offset 0) f
           cross join lateral (
             select case when strpos(s.spelling, ' ') > 0 then text_phrase(l.language, s.spelling)::text
                         else keyword.word_query(f.lexemes[1]) end as query offset 0) q
           where (l.entries > 0 or (:filter::entry_filter).as_of is not null) and not f.lexemes <@ f.replaced
             and (strpos(s.spelling, ' ') > 0) = (strpos(q.query, '<') > 0)) x
), matched as materialized (
  select q.language, keyword.matched_queries(:tenant_id, q.language, q.queries) as places
    from (select language, array_agg(query order by place) as queries from possible group by language) q
), compounds as materialized (
  (select p.language, p.query, p.replaced, p.asked, p.lexemes, :compound_weight::double precision as weight
     from matched m join possible p on p.language = m.language and p.place = any (m.places)
    limit 20)
  union all
  select w.language, w.query, w.replaced, w.asked, w.lexemes, :part_weight
    from (select array_agg(l.language) as languages
            from languages l
           where l.entries > 0
             and (select count(*) from words w where w.language = l.language) between 1 and :compound_limit::integer
          having count(*) > 0) l
   cross join lateral (
     select * from longer_words(:tenant_id, l.languages, :parts::text[], false)
     union all
     select * from longer_words(:tenant_id, l.languages, :unknown_parts::text[], true)) w
), synonyms as materialized (
  -- The query has the words of the term next to each other.
  select s.term, s.synonym, l.language, l.lexemes, q::text as query
    from (select language, text_lexemes(language, :query) as lexemes from languages
           where cardinality(:synonyms::text[]) > 0 and (entries > 0 or (:filter::entry_filter).as_of is not null)) l
   cross join unnest(:synonym_terms::text[], :synonyms::text[]) s (term, synonym)
   cross join lateral text_phrase(l.language, s.synonym) q
   where l.lexemes @@ text_phrase(l.language, s.term) and numnode(q) > 0
), alternatives as (
  select '(' || s.query || ') & !' || keyword.word_query(u.lexeme) as query, s.language, u.lexeme as word,
         :synonym_weight::double precision as weight
    from synonyms s
   cross join lateral (select lexeme from unnest(text_lexemes(s.language, s.term)) where :words <> ''
                       union all
                       select w.lexeme from words w where w.language = s.language and :words = '') u
  union all
  select c.query || ' & !' || keyword.word_query(r.word) as query, c.language, r.word, c.weight
    from compounds c cross join unnest(c.replaced) r (word)
  union all
  select keyword.word_query(u.prefix) || ':*', null, u.word, :completion_weight::double precision
    from unnest(:completions::text[], :completed::text[]) u (prefix, word)
), phrases as (
  select l.language, q.phrase
    from languages l
   cross join unnest(:phrases::text[]) p
   cross join lateral (select text_phrase(l.language, p) as phrase) q
   where (l.entries > 0 or (:filter::entry_filter).as_of is not null) and numnode(q.phrase) > 1
  union all
  select s.language, s.phrase
    from (select language, text_phrase('simple', left(:words, 100)) as phrase from words
           group by language having not bool_or(is_placed) offset 0) s
   where numnode(s.phrase) > 1
)
select k.entry_id, k.updated_at, k.score, k.pattern, k.candidates, k.best, k.unknown, corpus.entries,
       coalesce(k.complete, true) and not coalesce(w.cut, false) as complete, k.alternatives, c.compounds, s.synonyms
  from corpus
 cross join (select array_agg(lexeme) as lexemes, array_agg(language) as languages,
                    array_agg(frequency) as frequencies, array_agg(weight) as weights, bool_or(cut) as cut
               from words) w
 cross join (select array_agg(phrase::text) as phrases, array_agg(language) as languages from phrases) p
 cross join (select array_agg(query) as queries, array_agg(language) as languages, array_agg(word) as words,
                    array_agg(weight) as weights from alternatives) a
 cross join (select jsonb_agg(jsonb_build_array(language, asked, lexemes)) as compounds from compounds) c
 cross join (select jsonb_agg(distinct jsonb_build_array(term, synonym)) as synonyms from synonyms) s
  left join lateral keyword.search(:tenant_id, w.lexemes, w.languages, w.frequencies, corpus.entries,
                                  greatest(corpus.mean_length, 1), :filter, :limit, :budget,
                                  w.weights, p.phrases, p.languages, a.queries, a.languages, a.words,
                                  a.weights) k on true;

-- name: operators
-- An entry has a phrase if it has its words in its language at the same distances.
with languages as materialized (
  select distinct language from corpus_statistics
   where tenant_id = :tenant_id and principal = any (current_principals())
)
select array(select (select string_agg(distinct '(' || q::text || ')', ' | ')
                       from languages l cross join text_phrase(l.language, e.term) q where numnode(q) > 0)
               from unnest(:excluded::text[]) with ordinality e (term, place) order by e.place) as excluded,
       (select string_agg('(' || r.query || ')', ' | ')
          from (select string_agg('(' || q::text || ')', ' & ') as query
                  from languages l cross join unnest(:phrases::text[]) p cross join text_phrase(l.language, p) q
                 where numnode(q) > 0 group by l.language) r) as required;
-- name: compared_keyword_leg
-- The same hits, each with the similarity of its nearest passage; null without a vector.
select k.*, 1 - p.distance as cosine
  from ({text of keyword_leg}) k
 cross join lateral (
   select min(p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions})) as distance from embeddings p
    where p.tenant_id = :tenant_id and p.entry_id = k.entry_id and p.model_id = {model_id} offset 0) p;

-- name: ignored_words
-- The stop words of the query that are searched for in no language of the tenant.
select array(
  select i.lexeme
    from (select language from corpus_statistics
           where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0 group by language) l
   cross join lateral (
     select unnest(tsvector_to_array(stop_lexemes(l.language, left(unified_text(:query), 500)))) as lexeme
     except select unnest(tsvector_to_array(asked_lexemes(l.language, :query, :query)))) i
   group by i.lexeme having count(*) = (
     select count(distinct language) from corpus_statistics
      where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0)
   order by i.lexeme);

-- name: rehearse_keyword_leg
-- Searches for a word that no tenant has, only to make the function cache its plans.
select count(*) from keyword.search(:tenant_id, array['rehearsal'], array['english'], array[1], 1, 1, :filter, 1, 1);

-- name: repairs
-- Words to search for in place of words of the query that no entry has: for the last word a query for all words that begin
-- with it, for others the tenant's most similar word, and for each whether it is a part of longer words.
--
-- A stop word of a language of the tenant is neither completed nor corrected, nor a correction in entries
-- of this language. An identifier is completed as a whole, before its last part.
--
-- The most similar word differs by one letter or by the order of two, if there is one; with :strict, others are not
-- considered, nor words that only have another ending. Where that is found for one of a word's lexemes, those of other
-- languages are not replaced by a less similar one. The vocabulary is lexeme_statistics or, for a small tenant without statistics, its entries,
-- without quarantined ones. Comparing is the
-- main cost: only the five longest words are looked up, each among the 3,000 most used words of similar length. Neither
-- vocabulary is complete, so the entries are checked at the end, without the search's filter: a word that one of them has
-- is spelt correctly, and one that none has corrects nothing.
with languages as materialized (
  select language, sum(entries) as entries from corpus_statistics
   where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0 group by language
), forms as (
  select 1 as place, lower(:last_identifier::text) as form, lower(:last_identifier::text) as lexeme,
         array[lower(:last_identifier::text)] as lexemes
   where length(:last_identifier::text) >= :least_prefix
  union all
  select 2, f.form, min(o.lexeme), array_agg(o.lexeme)
    from (select min(lexeme) as form from unnest(text_lexemes('simple', :last_word::text)) having count(*) = 1) f
   cross join languages l
    left join lateral unnest(text_lexemes(l.language, :last_word::text)) o on true
   where length(f.form) >= :least_prefix
   group by f.form having bool_and(o.lexeme is not null)
), completed as materialized (
  select f.form, f.lexeme, f.lexemes
    from forms f
   where (:unknown::text[] is null or f.lexeme = any (:unknown::text[]))
     and keyword.matched_queries(:tenant_id, null, array[keyword.word_query(f.lexeme)]) = '{}'
     and keyword.matched_queries(:tenant_id, null, array[keyword.word_query(f.form) || ':*']) <> '{}'
   order by f.place limit 1
), words as materialized (
  select d.lexeme, d.place, near_pattern(d.lexeme) as pattern,
         -- First letters are rarely wrong, and the range keeps the search short.
         left(d.lexeme, case when not :strict::boolean then 1 when length(d.lexeme) < 6 then 2 else 3 end) as initial
    from (select u.lexeme collate "C" as lexeme, min(u.positions[1]) as place
            from languages l cross join lateral unnest(text_lexemes(l.language, :query)) u group by 1) d
   where :corrects::boolean and length(d.lexeme) between 3 and 40 and d.lexeme !~ '[0-9]'
     and not exists (select from lexeme_statistics k where k.tenant_id = :tenant_id and k.lexeme = d.lexeme)
     and not exists (select from completed c where d.lexeme = c.form or d.lexeme = any (c.lexemes))
     and (:unknown::text[] is null or d.lexeme = any (:unknown::text[]))
     and not exists (select from languages l where length(text_lexemes(l.language, d.lexeme)) = 0)
   order by length(d.lexeme) desc, d.lexeme limit 5
), vocabulary as materialized (
  select s.word as lexeme, s.ndoc as entries
    from ts_stat(case when (select sum(entries) from languages) < 1000 and exists (select from words)
      then format('select lexemes from public.entries where tenant_id = %L and not quarantined and lexemes @@ %L', :tenant_id::uuid,
                  (select string_agg(keyword.word_query(initial) || ':*', ' | ') from words))
      else 'select null::tsvector where false' end) s
), corrected as (
  select w.lexeme as word, near.lexeme as correction, near.near, bool_or(near.near) over (partition by w.place) as is_found
    from words w
   cross join lateral (
     select c.lexeme, c.near
       from (select v.lexeme, v.entries, similarity(v.lexeme, w.lexeme) as likeness, v.lexeme ~ w.pattern as near,
                    starts_with(v.lexeme, w.lexeme) or starts_with(w.lexeme, v.lexeme) as is_inflection
               from (select o.lexeme, o.entries
                       from (select lexeme, entries from vocabulary where starts_with(lexeme, w.initial)
                             union all
                             select lexeme, entries from lexeme_statistics
                              where tenant_id = :tenant_id and principal = 'everyone' and lexeme >= w.initial
                                and lexeme < w.initial || chr(1114111)) o
                      where abs(length(o.lexeme) - length(w.lexeme)) <= 2
                      order by o.entries desc, o.lexeme limit 3000) v
             offset 0) c
      where case when :strict::boolean then c.near and not c.is_inflection
                 else c.near or c.likeness >= 0.4 and length(w.lexeme) > 3 end
      order by c.near desc, c.likeness desc, c.entries desc, c.lexeme limit 1) near
   where near.lexeme <> w.lexeme
     and keyword.matched_queries(:tenant_id, null, array[keyword.word_query(w.lexeme)]) = '{}'
     -- The statistics may count entries that were deleted or hidden since.
     and exists (select from languages l
                  where length(text_lexemes(l.language, near.lexeme)) > 0
                    and keyword.matched_queries(:tenant_id, l.language, array[keyword.word_query(near.lexeme)]) <> '{}')
), parts as materialized (
  -- A word that differs by one letter is more likely to be meant than one that contains the other.
  select p.asked, p.replaced
    from (select array_agg(language) as languages from languages
           where length(text_lexemes(language, :query)) between 1 and :compound_limit::integer having count(*) > 0) l
   cross join lateral longer_words(:tenant_id, l.languages, :parts::text[], true) p
   where not exists (select from corrected c where c.near and c.word = any (p.replaced))
)
select c.lexeme as word, null as correction, c.form as prefix, null as part from completed c
union all
select word, correction, null, null from corrected where (near or not is_found) and word <> all (select unnest(replaced) from parts)
union all
select distinct null, null, null, asked[1] from parts;

-- name: completed_words
-- Words of these entries that begin with the prefix, those of most entries first.
select w.lexeme from entries e cross join lateral unnest(tsvector_to_array(e.lexemes)) w (lexeme)
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and starts_with(w.lexeme, :prefix)
 group by 1 order by count(*) desc, 1 limit :limit;

-- name: entries_with_lexemes
-- For each lexeme, one of the entries that have it: the first in the order of `ids`. Joined without a limit, a plan without
-- statistics reads all entries of the tenant.
select distinct on (c.lexeme) c.lexeme, e.language, e.title, left(e.content, 20000) as content
  from unnest(:ids::uuid[]) with ordinality wanted (id, place)
 cross join lateral (select * from entries where tenant_id = :tenant_id and id = wanted.id offset 0) e
  join unnest(:lexemes::text[]) c (lexeme) on c.lexeme = any (tsvector_to_array(e.lexemes))
 order by c.lexeme, wanted.place;

-- name: filtered_ids
select keyword.filtered_ids(:filter, :limit);

-- name: count_readable
-- How many entries the caller may read at least: those that one of its principals may, since several may read the same.
select coalesce(max(p.entries) filter (where p.principal = 'everyone'), 0)
         + coalesce(max(p.entries) filter (where p.principal <> 'everyone'), 0)
  from (select principal, sum(entries)::bigint as entries from corpus_statistics
         where tenant_id = :tenant_id and principal = any (current_principals()) group by principal) p;

-- name: facets
-- The matches are found by their words, if there is a text, and by their vectors, if there is one; with `ids`, the ids of
-- all entries that pass the filter, only these are compared. `near` are matches that an index has found. Of the entries
-- found by their words, at most :most are counted; `complete` is false if there are more. With `pending_only`, these are
-- only entries without a vector. A row without a value has the number of matches without one, and a row without a name
-- the number of all matches. Values of metadata count once in an entry, each item of a list for itself.
with words as (
  select array_agg(w.lexeme) as lexemes, array_agg(l.language) as languages, bool_or(w.cut) as cut
    from (select distinct language from corpus_statistics
           where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0) l
   cross join lateral (
     select u.lexeme, count(*) over () > 200 as cut
       from unnest(asked_lexemes(l.language, :words, :query)) u
      order by u.positions[1] nulls first limit 200) w
   where :query::text is not null
), worded as materialized (
  select distinct m.entry_id
    from words w
   cross join lateral keyword.matching_entries(w.lexemes, w.languages, :alternatives::text[], null, :filter_of_words,
                                               :ids::uuid[], :most + 1) m
), near as materialized (
  -- Two statements in one: with a condition for both, the ids would be compared with every passage.
  select p.entry_id
    from embeddings p
   where :vector::halfvec({dimensions}) is not null and :ids::uuid[] is null
     and p.tenant_id = :tenant_id and p.model_id = {model_id}
     and p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) <= :max_distance
  union all
  select p.entry_id
    from unnest(:ids::uuid[]) i (id)
    join embeddings p on p.tenant_id = :tenant_id and p.entry_id = i.id and p.model_id = {model_id}
   where :vector::halfvec({dimensions}) is not null
     and p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) <= :max_distance
), found as materialized (
  (select w.entry_id from worded w
    where not :pending_only
       or not exists (select from embeddings p
                       where p.tenant_id = :tenant_id and p.entry_id = w.entry_id and p.model_id = {model_id})
    limit :most)
  union
  select n.entry_id from near n
  union
  select i from unnest(:near::uuid[]) i
), matches as materialized (
  select e.*
    from found f
   cross join lateral (
     select e.tags, e.entry_type, e.roles, e.scope, e.asset_id, e.metadata from entries e
      where e.tenant_id = :tenant_id and e.id = f.entry_id and entry_matches(e, :filter)
     offset 0) e
), counted as (
  select null as name, null::jsonb as value, count(*) as entries from matches
  union all
  select v.name, to_jsonb(v.value), count(*)
    from matches m
   cross join lateral (
     values ('entry_type', m.entry_type), ('scope', m.scope), ('asset_id', m.asset_id::text),
            ('source', case when m.asset_id is null then 'entry' else 'asset' end)) v (name, value)
   where v.name = any (:names::text[]) group by v.name, v.value
  union all
  select 'tags', to_jsonb(t.tag), count(*) from matches m left join lateral unnest(m.tags) t (tag) on true
   where 'tags' = any (:names::text[]) group by t.tag
  union all
  select 'roles', to_jsonb(r.role), count(*) from matches m left join lateral unnest(m.roles) r (role) on true
   where 'roles' = any (:names::text[]) group by r.role
  union all
  select 'metadata.' || k.key, v.value, count(*)
    from unnest(:keys::text[]) k (key) cross join matches m
    left join lateral (
      select distinct a.value
        from jsonb_array_elements(case jsonb_typeof(m.metadata -> k.key)
               when 'array' then m.metadata -> k.key else jsonb_build_array(m.metadata -> k.key) end) a (value)
       where jsonb_typeof(a.value) in ('string', 'number', 'boolean')) v on true
   group by k.key, v.value
), ranked as (
  select c.name, c.value, c.entries,
         case when c.value is null then 'missing'
              when c.short and row_number() over (partition by c.name, c.short order by c.entries desc, c.value #>> '{{}}') <= :values
              then 'value' else 'other' end as kind
    from (select *, value is not null and length(value #>> '{{}}') <= :longest as short from counted) c
)
select r.name, case when r.kind = 'value' then r.value end as value, sum(r.entries)::bigint as count, r.kind,
       (select count(*) from worded) <= :most and not coalesce((select cut from words), false) as complete
  from ranked r group by 1, 2, 4;

-- name: suggest_tags
-- Tags that resemble a word of the query, then the most used ones. Compared are tags with the same first letter, which
-- is rarely wrong, and the most used tags: a few hundred, regardless of the number of tags. Tags that only quarantined
-- entries have are left out: they are part of what is suspicious.
with words as (
  select word from unnest(:words::text[]) word
), quarantined as materialized (
  select t.tag, count(*) as entries
    from entries e cross join lateral (select u collate "C" as tag from unnest(e.tags) u) t
   where e.tenant_id = :tenant_id and e.quarantined and e.readers is null
   group by t.tag
), used as materialized (
  select tag, entries from tag_statistics where tenant_id = :tenant_id and entries > 0
   order by entries desc, tag limit 200
), compared as (
  select u.tag, u.entries, similarity(u.tag, w.word) as likeness from words w cross join used u
  union all
  select t.tag, t.entries, similarity(t.tag, w.word)
    from words w
   cross join lateral unnest(array[lower(left(w.word, 1)), upper(left(w.word, 1))]) initial
   cross join lateral (
     select tag, entries from tag_statistics
      where tenant_id = :tenant_id and tag >= initial and tag < initial || chr(1114111) and entries > 0
      order by tag limit 300) t
)
select tag, max(likeness) filter (where likeness > :least) as likeness
  from (select tag, entries, likeness from compared union all select tag, entries, null from used) t
 where t.entries > coalesce((select q.entries from quarantined q where q.tag = t.tag), 0)
 group by tag
 order by 2 desc nulls last, max(entries) desc, tag limit :limit;

-- name: suggest_lexemes
-- Words of the tenant that resemble a word of the query and are in an entry that passes the filter. Each comes with
-- that entry, which contains the full word, since lexemes are stems. The vocabulary is lexeme_statistics or, for a small
-- tenant without statistics, its newest entries. Compared are words with the same first letter, which is rarely wrong,
-- up to a few thousand.
with languages as materialized (
  select language, sum(entries) as entries, sum(characters) as characters from corpus_statistics
   where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0 group by language
), corpus as (
  select coalesce(sum(entries), 0)::bigint as entries,
         (coalesce(sum(characters), 0) / greatest(coalesce(sum(entries), 0), 1))::double precision as mean_length,
         array_agg(language) as languages
    from languages
), vocabulary as materialized (
  select s.word as lexeme, s.ndoc as entries
    from ts_stat(case when exists (select from lexeme_statistics where tenant_id = :tenant_id and principal = 'everyone')
      then 'select null::tsvector where false'
      else format('select lexemes from public.entries where tenant_id = %L and not quarantined
                    order by created_at desc, id desc limit 200', :tenant_id::uuid) end) s
), words as materialized (
  select u.lexeme collate "C" as lexeme, min(u.positions[1]) as place
    from languages l cross join lateral unnest(text_lexemes(l.language, :query)) u
   where length(u.lexeme) between 3 and 40 and u.lexeme !~ '[0-9]'
   group by 1 order by place limit 5
), alike as (
  select v.lexeme, max(similarity(v.lexeme, w.lexeme)) as likeness, max(v.entries) as entries
    from words w
   cross join lateral (
     select lexeme, entries from vocabulary where left(lexeme, 1) = left(w.lexeme, 1)
     union all
     (select lexeme, entries from lexeme_statistics
       where tenant_id = :tenant_id and principal = 'everyone' and lexeme >= left(w.lexeme, 1)
         and lexeme < left(w.lexeme, 1) || chr(1114111)
       order by lexeme limit 3000)) v
   where abs(length(v.lexeme) - length(w.lexeme)) <= 5 and similarity(v.lexeme, w.lexeme) > :least
     and v.lexeme not in (select lexeme from words)
   group by v.lexeme
   order by likeness desc, entries desc, v.lexeme limit :limit
)
select a.lexeme, e.language, e.title, e.content, a.likeness
  from corpus
 cross join alike a
 cross join lateral keyword.search(
   :tenant_id, array_fill(a.lexeme, array[cardinality(corpus.languages)]), corpus.languages,
   array_fill(a.entries::integer, array[cardinality(corpus.languages)]), corpus.entries,
   greatest(corpus.mean_length, 1), :filter, 1, 100) k
 cross join lateral (
   select x.language, x.title, left(x.content, 20000) as content
     from entries x where x.tenant_id = :tenant_id and x.id = k.entry_id offset 0) e
 order by a.likeness desc, a.entries desc, a.lexeme;

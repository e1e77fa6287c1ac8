-- Facets: the values that all matches of a search have, with counts.

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
       from unnest(text_lexemes(l.language, :words) || identifier_lexemes(:query)) u
      order by u.positions[1] nulls first limit 200) w
   where :query::text is not null
), worded as materialized (
  select distinct m.entry_id
    from words w
   cross join lateral keyword.matching_entries(w.lexemes, w.languages, :alternatives::text[], null, :filter, :ids::uuid[],
                                               :most + 1) m
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
select a.lexeme, a.likeness, e.language, e.title, e.content
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

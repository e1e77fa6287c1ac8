-- Tags and words to suggest where a search found nothing.

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

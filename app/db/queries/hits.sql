-- Reads the entries of a search's hits.

-- name: hydrate
-- The entries, with the data for the snippet: the query's lexemes in the entry's language, and the
-- passage nearest to the query's vector. The page ends after the entry with which it has :most_bytes; `passing` counts
-- the entries of the whole page. Each id is looked up by itself, here and elsewhere: the planner's choice for a join
-- depends on statistics, and without them it read all rows of the tenant.
with lexemes as materialized (
  select language, tsvector_to_array(asked_lexemes(language, :query, :query)) as query_lexemes
    from (select distinct language from corpus_statistics
           where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0) l
)
select {found}, language, media_type, source, agreed_at, query_lexemes, char_start, char_end, passing
  from (
    select e.*, a.name as asset_name, a.media_type, a.source, s.agreed_at, lexemes.query_lexemes, nearest.char_start,
           nearest.char_end, wanted.place, count(*) over () as passing,
           sum(size.bytes) over (order by wanted.place) - size.bytes as preceding
      from unnest(:ids::uuid[]) with ordinality wanted (id, place)
      cross join lateral (
        select e.* from {entries} e
         where e.tenant_id = :tenant_id and e.id = wanted.id and {matches}(e, :filter) offset 0) e
      cross join lateral (select octet_length(e.content) + octet_length(e.metadata::text) as bytes) size
      left join lexemes on lexemes.language = e.language
      left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
      left join sources s on s.tenant_id = :tenant_id and s.name = a.source
      left join lateral (
        select p.char_start, p.char_end from {embeddings} p
         where p.tenant_id = :tenant_id and p.entry_id = e.id and p.model_id = {model_id}
           and :vector::halfvec({dimensions}) is not null
         -- A chunk of several parts is embedded as a whole, too.
         order by p.char_end - p.char_start = length(e.content),
                  p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) limit 1
      ) nearest on true
  ) page
 where preceding < :most_bytes order by place;

-- name: assets_of
select e.id, e.asset_id
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select e.id, e.asset_id from {entries} e
    where e.tenant_id = :tenant_id and e.id = wanted.id and e.asset_id is not null offset 0) e;

-- name: named
select e.id, (select count(*) from unnest(asked_lexemes(e.language, :numbers, :numbers)) n
               where n.lexeme = any (tsvector_to_array(e.lexemes))) as named
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select e.id, e.language, e.lexemes from {entries} e where e.tenant_id = :tenant_id and e.id = wanted.id offset 0) e;

-- name: verdict
-- Reasons why an entry may be missing: each part of the filter separately, as if the entry were not hidden, and the entry's
-- values in the legs.
select e.expires_at is null or e.expires_at > now() as unexpired,
       e.superseded_by_id is null or (:filter::entry_filter).include_superseded as current,
       not e.quarantined as released,
       array(select entry_passes(shown, (:parts::entry_filter[])[n]) from generate_subscripts(:parts::entry_filter[], 1) n
              order by n) as passed,
       e.repeats is not null and repeats_another(e.id, e.repeats, e.text_hash, :filter) as repeated,
       exists (select from unnest(tsvector_to_array(asked_lexemes(e.language, :query, :query))) l
                where l = any (tsvector_to_array(e.lexemes)))
         or exists (select from unnest(:alternatives::text[]) a where e.lexemes @@ a::tsquery) as shares_words,
       :required::text is null or e.lexemes @@ :required::text::tsquery as has_phrases,
       (select 1 - min(p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions})) from embeddings p
         where p.tenant_id = :tenant_id and p.entry_id = e.id and p.model_id = {model_id}) as cosine
  from entries e
 cross join lateral jsonb_populate_record(
   e, '{{"expires_at": null, "superseded_by_id": null, "quarantined": false}}') shown
 where e.tenant_id = :tenant_id and e.id = :id;

-- name: count_accesses
insert into access_counts as a (tenant_id, entry_id, accesses)
select :tenant_id, u.id, u.accesses
  from unnest(:ids::uuid[], :accesses::bigint[]) u (id, accesses)
 where exists (select from entries e where e.tenant_id = :tenant_id and e.id = u.id)
 order by u.id
on conflict (tenant_id, entry_id) do update set accesses = a.accesses + excluded.accesses;

-- name: boost_facts
select e.id, e.entry_type, e.is_verified, coalesce(a.accesses, 0) as accesses
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select e.id, e.entry_type, e.is_verified from {entries} e where e.tenant_id = :tenant_id and e.id = wanted.id offset 0) e
  left join access_counts a on a.tenant_id = :tenant_id and a.entry_id = e.id;

-- name: validity
-- When the versions of these entries that were valid at a time began, and ended if they have.
select e.id, coalesce(f.valid_from, greatest(e.updated_at, (
         select max(o.valid_until) from former_entries o where o.tenant_id = :tenant_id and o.id = e.id))) as valid_from,
       f.valid_until
  from entries_at(:ids::uuid[], :as_of::timestamptz) e
  left join former_entries f on f.tenant_id = :tenant_id and f.id = e.id and f.valid_from <= :as_of and f.valid_until > :as_of;

-- name: passages
-- Of each entry at most :most characters: from its passage nearest to the query's vector, and without a vector from
-- where the most different words of the query stand. Entries that no longer pass the filter are missing.
with lexemes as materialized (
  select language, array(select word from unnest(tsvector_to_array(text_lexemes(language, :query))) word
                          order by length(word) desc, word limit 16) as words
    from (select distinct language from corpus_statistics
           where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0) l
)
select e.id, e.title, substr(e.content, coalesce(nearest.char_start, words.char_start, 0) + 1, :most) as text
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select e.* from {entries} e
    where e.tenant_id = :tenant_id and e.id = wanted.id and {matches}(e, :filter) offset 0) e
  left join lexemes on lexemes.language = e.language
  left join lateral (
    select p.char_start from {embeddings} p
     where length(e.content) > :most and p.tenant_id = :tenant_id and p.entry_id = e.id and p.model_id = {model_id}
       and :vector::halfvec({dimensions}) is not null
     order by p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) limit 1
  ) nearest on true
  left join lateral (
    select greatest(0, place - 1 - :lead) as char_start
      from (select lower(e.content) as content offset 0) low
      cross join lateral unnest(lexemes.words) word
      cross join lateral strpos(low.content, word) place
     where length(e.content) > :most and nearest.char_start is null and place > 0
     order by (select count(*) from unnest(lexemes.words) other
                where strpos(substr(low.content, place, :most), other) > 0) desc, place limit 1
  ) words on true;

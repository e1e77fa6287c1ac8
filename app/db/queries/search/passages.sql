-- Reads the texts that a reranker compares with the query.

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
  join {entries} e on e.tenant_id = :tenant_id and e.id = wanted.id
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
  ) words on true
 where {matches}(e, :filter);

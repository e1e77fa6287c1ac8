-- Compound words of a query, longer words that contain one, and which of several queries have matches.

-- The compounds that words of a query may be parts of, and the parts that they may consist of, as queries for entries of
-- the language. A long word stands for its two parts in one entry, and two words for their compound. Two words that
-- follow each other are joined in both orders, words further apart only in reverse, since the genitive comes last:
-- "Sicherung der Datenbank". Stemming removes most linking letters of a part.
--
-- `words` are those of the query, in order: sixteen of at most 30 letters are looked at. `replaced` are their lexemes for
-- which the query stands, `asked` the words themselves, and `lexemes` those of the query. These are loops, since Postgres
-- takes longer to plan a statement over so many short lists.
create or replace function possible_compounds(language text, words text[])
returns table (query text, replaced text[], asked text[], lexemes text[])
language plpgsql immutable parallel safe rows 100 set search_path = pg_catalog, public, pg_temp
as $$
declare
  given constant text[] := words[:16];
  links constant text[] := linking_letters(language);
  stems text[];
  tokens text[] := '{}';
  firsts integer[] := '{}';
  seconds integer[] := '{}';
  token_stems text[];
  found record;
  form text;
  link text;
  place integer := 1;
  seen text[] := '{}';
begin
  for found in
    select u.lexeme, p.place
      from unnest(text_lexemes(language, array_to_string(given, ' '))) u cross join unnest(u.positions) p (place)
  loop
    if found.place <= cardinality(given) and length(given[found.place]) <= 30 then
      stems[found.place] := found.lexeme;
    end if;
  end loop;
  for i in 1 .. coalesce(cardinality(given), 0) loop
    continue when stems[i] is null;
    for letters in 3 .. case when length(given[i]) >= 7 then length(given[i]) - 3 else 0 end loop
      tokens := tokens || left(given[i], letters) || substr(given[i], letters + 1);
      firsts := firsts || i || i;
      seconds := seconds || 0 || -1;
    end loop;
    for j in greatest(1, i - 3) .. least(i + 1, cardinality(given)) loop
      continue when stems[j] is null or stems[j] = stems[i];
      -- As it is written, its stem, and the singular: "Besprechungen" in "Besprechungsraum".
      for form in
        select given[i] union select stems[i]
        union select left(given[i], -max(length(l))) from unnest(links) l
               where l <> '' and given[i] like '%' || l and length(given[i]) > length(l) + 2
      loop
        continue when form is null;
        foreach link in array links loop
          tokens := tokens || (form || link || given[j]);
          firsts := firsts || i;
          seconds := seconds || j;
        end loop;
      end loop;
    end loop;
  end loop;
  for found in
    select u.lexeme, p.place
      from unnest(text_lexemes(language, array_to_string(tokens, ' '))) u cross join unnest(u.positions) p (place)
  loop
    token_stems[found.place] := found.lexeme;
  end loop;
  while place <= cardinality(tokens) loop
    if seconds[place] > 0 then
      lexemes := array[token_stems[place]];
      replaced := array[stems[firsts[place]], stems[seconds[place]]];
      asked := array[given[least(firsts[place], seconds[place])], given[greatest(firsts[place], seconds[place])]];
      query := keyword.word_query(lexemes[1]);
      place := place + 1;
    else
      lexemes := array[token_stems[place], token_stems[place + 1]];
      replaced := array[stems[firsts[place]]];
      asked := array[given[firsts[place]]];
      query := keyword.word_query(lexemes[1]) || ' & ' || keyword.word_query(lexemes[2]);
      place := place + 2;
    end if;
    continue when query is null or lexemes && replaced or query = any (seen);
    seen := seen || query;
    return next;
  end loop;
end $$;
revoke all on function possible_compounds(text, text[]) from public;
grant execute on function possible_compounds(text, text[]) to kb_reader;

-- A pattern for words that differ from this one by one letter more, less or other, or by the order of two.
create or replace function near_pattern(word text) returns text
language sql immutable parallel safe
begin atomic
  select '^(?:' || string_agg(
           concat_ws('|', array_to_string(l.letters[:n - 1], '') || '.?' || array_to_string(l.letters[n + 1:], ''),
                     array_to_string(l.letters[:n - 1], '') || '.' || array_to_string(l.letters[n:], ''),
                     array_to_string(l.letters[:n - 1], '') || l.letters[n + 1] || l.letters[n]
                     || array_to_string(l.letters[n + 2:], '')),
           '|') || ')$'
    from (select array(select case when c ~ '[[:alnum:]]' or ascii(c) > 127 then c else '\' || c end
                         from regexp_split_to_table(word, '') c) as letters) l
   cross join lateral generate_series(1, cardinality(l.letters) + 1) n;
end;
revoke all on function near_pattern(text) from public;
grant execute on function near_pattern(text) to kb_reader;

grant create on schema keyword to kb_keyword;
set local role kb_keyword;

-- The places of those queries that an entry of the language matches (null: of any language). Each is looked up by itself:
-- the index stops at a word that no entry has, while one query for all of them would read the entries of every common part.
-- A phrase is looked for in 500 entries with its words: the index does not know which words are next to each other. The cost
-- of an index tuple keeps Postgres from reading all entries of the tenant for each query where a table has no statistics yet.
create or replace function keyword.matched_queries(p_tenant uuid, p_language text, p_queries text[]) returns integer[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_indexscan = off set cpu_index_tuple_cost = 1000
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
begin
  if p_tenant is distinct from tenant then
    raise exception 'another tenant is set' using errcode = 'insufficient_privilege';
  end if;
  return array(
    select q.place
      from unnest(p_queries) with ordinality q (query, place)
     cross join lateral (
       select
         from (select e.lexemes from entries e
                where e.tenant_id = tenant and audience(e.readers) && principals and is_live(e.quarantined, e.expires_at, now())
                  and e.lexemes @@ regexp_replace(q.query, '<(?:-|[0-9]+)>', '&', 'g')::tsquery
                  and (p_language is null or e.language = p_language)
                limit 500) e
        where e.lexemes @@ q.query::tsquery
        limit 1) found
     order by q.place);
end $$;
revoke all on function keyword.matched_queries(uuid, text, text[]) from public;
grant execute on function keyword.matched_queries(uuid, text, text[]) to kb_reader;

-- Entries whose word_parts() match a query. The costs are those of matched_queries().
create or replace function keyword.entries_with_parts(p_tenant uuid, p_parts tsquery, p_limit integer) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_indexscan = off set cpu_index_tuple_cost = 1000
as $$
declare
  tenant constant uuid := keyword.required_tenant();
  principals constant text[] := current_principals();
begin
  if p_tenant is distinct from tenant then
    raise exception 'another tenant is set' using errcode = 'insufficient_privilege';
  end if;
  return array(
    select e.id from entries e
     where e.tenant_id = tenant and audience(e.readers) && principals
       and word_parts(e.language, e.title, e.lexemes) @@ p_parts and is_live(e.quarantined, e.expires_at, now())
     limit p_limit);
end $$;
revoke all on function keyword.entries_with_parts(uuid, tsquery, integer) from public;
grant execute on function keyword.entries_with_parts(uuid, tsquery, integer) to kb_reader;

reset role;
revoke create on schema keyword from kb_keyword;

-- Longer words that contain one of these words, from five letters on, as queries for entries of each language: words of titles,
-- and in languages with compounds, words of any text that begin or end with it. A word that an entry has stands for words that
-- begin with it, and as the end of a compound; with `is_unknown`, only words are looked at that no entry has, and a title's word
-- may contain them anywhere. The end of a word is compared without its own ending, as it is behind other letters: "Prüfung" is
-- "Überprüf-ung". Looked at are 100 entries with such words, of which the ten most frequent in a language count. The other columns
-- are those of possible_compounds().
create or replace function longer_words(tenant uuid, languages text[], words text[], is_unknown boolean)
returns table (language text, query text, replaced text[], asked text[], lexemes text[])
language plpgsql stable rows 3 set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
declare
  word text;
  form text;
  stems text[];
  tails text[];
  parts text;
  ids uuid[];
begin
  foreach word in array words loop
    form := (tsvector_to_array(text_lexemes('simple', word)))[1];
    stems := array(select (tsvector_to_array(text_lexemes(l, word)))[1] from unnest(languages) l);
    continue when length(form) < 5 or array_position(stems, null) is not null
      or is_unknown <> (keyword.matched_queries(tenant, null, array(select keyword.word_query(s) from unnest(stems) s)) = '{}');
    tails := array(select substr((tsvector_to_array(text_lexemes(l, 'barbar' || word)))[1], 7) from unnest(languages) l);
    select string_agg(format('%s:* & !%1$s', keyword.word_query(p.part)), ' | ')
           || case when is_unknown then format(' | %s:*', keyword.word_query(form)) else '' end
      into parts
      from (select '^' || form as part
            union
            select unnest(array['^' || c.stem, '<' || reverse(c.tail)])
              from unnest(languages, stems, tails) c (language, stem, tail) where linking_letters(c.language) is not null) p;
    ids := keyword.entries_with_parts(tenant, parts::tsquery, 100);
    continue when ids = '{}';
    return query
      select f.language, '(' || string_agg(keyword.word_query(f.lexeme), ' | ') || ')', array[f.stem], array[word], array_agg(f.lexeme)
        from (
          select s.language, s.stem, w.lexeme, row_number() over (partition by s.language order by count(*) desc, w.lexeme) as place
            from unnest(ids) i (id)
           cross join lateral (select x.language, x.title, x.lexemes from entries x where x.tenant_id = tenant and x.id = i.id offset 0) e
            join unnest(languages, stems, tails) s (language, stem, tail) on s.language = e.language
           cross join lateral (
             select l.lexeme from unnest(tsvector_to_array(e.lexemes)) l (lexeme)
              where linking_letters(s.language) is not null and length(l.lexeme) >= length(s.tail) + 3
                and (starts_with(l.lexeme, s.stem) or right(l.lexeme, length(s.tail)) = s.tail)
             union
             select unnest(tsvector_to_array(text_lexemes(e.language, t.word)))
               from unnest(tsvector_to_array(text_lexemes('simple', e.title))) t (word)
              where case when is_unknown then strpos(t.word, form) > 0 else starts_with(t.word, form) end) w
           where w.lexeme <> s.stem
           group by 1, 2, 3) f
       where f.place <= 10 group by f.language, f.stem;
  end loop;
end $$;
revoke all on function longer_words(uuid, text[], text[], boolean) from public;
grant execute on function longer_words(uuid, text[], text[], boolean) to kb_reader;

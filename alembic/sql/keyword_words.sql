-- Compound words of a query, and which of several queries have matches.

-- Letters between the parts of a compound; null for languages that do not write compounds as one word.
create or replace function linking_letters(language text) returns text[]
language sql immutable parallel safe
return case language
  when 'german' then array['', 's', 'es', 'n', 'en', 'er', 'e']
  when 'dutch' then array['', 's', 'e', 'en', 'n', 'er']
  when 'danish' then array['', 's', 'e']
  when 'norwegian' then array['', 's', 'e']
  when 'swedish' then array['', 's', 'o', 'u', 'a']
  when 'finnish' then array['', 'n', 'en']
  when 'hungarian' then array['']
end;
revoke all on function linking_letters(text) from public;
grant execute on function linking_letters(text) to kb_reader;

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
                where e.tenant_id = tenant and audience(e.readers) && principals
                  and e.lexemes @@ regexp_replace(q.query, '<(?:-|[0-9]+)>', '&', 'g')::tsquery
                  and (p_language is null or e.language = p_language)
                limit 500) e
        where e.lexemes @@ q.query::tsquery
        limit 1) found
     order by q.place);
end $$;
revoke all on function keyword.matched_queries(uuid, text, text[]) from public;
grant execute on function keyword.matched_queries(uuid, text, text[]) to kb_reader;

reset role;
revoke create on schema keyword from kb_keyword;

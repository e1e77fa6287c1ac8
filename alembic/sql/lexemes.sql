-- Conversion of text to lexemes, for entries and queries.

-- If LC_CTYPE is C, as in the embedded database, Postgres treats every character beyond ASCII as a letter: the words of
-- „word“ and it’s, or next to a no-break space, would include it and not be found without it. Symbols of Latin-1,
-- general punctuation (except joiners inside words), currencies, arrows to geometric shapes, supplemental punctuation,
-- and the punctuation of East Asian scripts become spaces. Letters, digits, fractions and pictures stay. Punctuation
-- inside words becomes spaces too, so that the parts of "vercel.json" or "KNOW-004" are found.
create or replace function spaced_text(content text) returns text
language sql immutable parallel safe
return pg_catalog.regexp_replace(content, '[\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b\u200e-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd/_.:@#-]', ' ', 'g');
revoke all on function spaced_text(text) from public;
grant execute on function spaced_text(text) to kb_app;
comment on function spaced_text(text) is 'A text with spaces in place of the characters that separate words';

-- Constant configurations, since a regconfig column or a cast would not be immutable. The languages are those of
-- app/knowledge/languages.py and of the check on `entries`; a test compares them.
create or replace function text_lexemes(language text, content text) returns tsvector
language sql immutable parallel safe
return case language
  when 'simple' then pg_catalog.to_tsvector('pg_catalog.simple'::regconfig, spaced_text(content))
  when 'arabic' then pg_catalog.to_tsvector('pg_catalog.arabic'::regconfig, spaced_text(content))
  when 'armenian' then pg_catalog.to_tsvector('pg_catalog.armenian'::regconfig, spaced_text(content))
  when 'basque' then pg_catalog.to_tsvector('pg_catalog.basque'::regconfig, spaced_text(content))
  when 'catalan' then pg_catalog.to_tsvector('pg_catalog.catalan'::regconfig, spaced_text(content))
  when 'danish' then pg_catalog.to_tsvector('pg_catalog.danish'::regconfig, spaced_text(content))
  when 'dutch' then pg_catalog.to_tsvector('pg_catalog.dutch'::regconfig, spaced_text(content))
  when 'english' then pg_catalog.to_tsvector('pg_catalog.english'::regconfig, spaced_text(content))
  when 'finnish' then pg_catalog.to_tsvector('pg_catalog.finnish'::regconfig, spaced_text(content))
  when 'french' then pg_catalog.to_tsvector('pg_catalog.french'::regconfig, spaced_text(content))
  when 'german' then pg_catalog.to_tsvector('pg_catalog.german'::regconfig, spaced_text(content))
  when 'greek' then pg_catalog.to_tsvector('pg_catalog.greek'::regconfig, spaced_text(content))
  when 'hindi' then pg_catalog.to_tsvector('pg_catalog.hindi'::regconfig, spaced_text(content))
  when 'hungarian' then pg_catalog.to_tsvector('pg_catalog.hungarian'::regconfig, spaced_text(content))
  when 'indonesian' then pg_catalog.to_tsvector('pg_catalog.indonesian'::regconfig, spaced_text(content))
  when 'irish' then pg_catalog.to_tsvector('pg_catalog.irish'::regconfig, spaced_text(content))
  when 'italian' then pg_catalog.to_tsvector('pg_catalog.italian'::regconfig, spaced_text(content))
  when 'lithuanian' then pg_catalog.to_tsvector('pg_catalog.lithuanian'::regconfig, spaced_text(content))
  when 'nepali' then pg_catalog.to_tsvector('pg_catalog.nepali'::regconfig, spaced_text(content))
  when 'norwegian' then pg_catalog.to_tsvector('pg_catalog.norwegian'::regconfig, spaced_text(content))
  when 'portuguese' then pg_catalog.to_tsvector('pg_catalog.portuguese'::regconfig, spaced_text(content))
  when 'romanian' then pg_catalog.to_tsvector('pg_catalog.romanian'::regconfig, spaced_text(content))
  when 'russian' then pg_catalog.to_tsvector('pg_catalog.russian'::regconfig, spaced_text(content))
  when 'serbian' then pg_catalog.to_tsvector('pg_catalog.serbian'::regconfig, spaced_text(content))
  when 'spanish' then pg_catalog.to_tsvector('pg_catalog.spanish'::regconfig, spaced_text(content))
  when 'swedish' then pg_catalog.to_tsvector('pg_catalog.swedish'::regconfig, spaced_text(content))
  when 'tamil' then pg_catalog.to_tsvector('pg_catalog.tamil'::regconfig, spaced_text(content))
  when 'turkish' then pg_catalog.to_tsvector('pg_catalog.turkish'::regconfig, spaced_text(content))
  when 'yiddish' then pg_catalog.to_tsvector('pg_catalog.yiddish'::regconfig, spaced_text(content))
end;
revoke all on function text_lexemes(text, text) from public;
grant execute on function text_lexemes(text, text) to kb_app;

create or replace function text_phrase(language text, content text) returns tsquery
language sql immutable parallel safe
return case language
  when 'simple' then pg_catalog.phraseto_tsquery('pg_catalog.simple'::regconfig, spaced_text(content))
  when 'arabic' then pg_catalog.phraseto_tsquery('pg_catalog.arabic'::regconfig, spaced_text(content))
  when 'armenian' then pg_catalog.phraseto_tsquery('pg_catalog.armenian'::regconfig, spaced_text(content))
  when 'basque' then pg_catalog.phraseto_tsquery('pg_catalog.basque'::regconfig, spaced_text(content))
  when 'catalan' then pg_catalog.phraseto_tsquery('pg_catalog.catalan'::regconfig, spaced_text(content))
  when 'danish' then pg_catalog.phraseto_tsquery('pg_catalog.danish'::regconfig, spaced_text(content))
  when 'dutch' then pg_catalog.phraseto_tsquery('pg_catalog.dutch'::regconfig, spaced_text(content))
  when 'english' then pg_catalog.phraseto_tsquery('pg_catalog.english'::regconfig, spaced_text(content))
  when 'finnish' then pg_catalog.phraseto_tsquery('pg_catalog.finnish'::regconfig, spaced_text(content))
  when 'french' then pg_catalog.phraseto_tsquery('pg_catalog.french'::regconfig, spaced_text(content))
  when 'german' then pg_catalog.phraseto_tsquery('pg_catalog.german'::regconfig, spaced_text(content))
  when 'greek' then pg_catalog.phraseto_tsquery('pg_catalog.greek'::regconfig, spaced_text(content))
  when 'hindi' then pg_catalog.phraseto_tsquery('pg_catalog.hindi'::regconfig, spaced_text(content))
  when 'hungarian' then pg_catalog.phraseto_tsquery('pg_catalog.hungarian'::regconfig, spaced_text(content))
  when 'indonesian' then pg_catalog.phraseto_tsquery('pg_catalog.indonesian'::regconfig, spaced_text(content))
  when 'irish' then pg_catalog.phraseto_tsquery('pg_catalog.irish'::regconfig, spaced_text(content))
  when 'italian' then pg_catalog.phraseto_tsquery('pg_catalog.italian'::regconfig, spaced_text(content))
  when 'lithuanian' then pg_catalog.phraseto_tsquery('pg_catalog.lithuanian'::regconfig, spaced_text(content))
  when 'nepali' then pg_catalog.phraseto_tsquery('pg_catalog.nepali'::regconfig, spaced_text(content))
  when 'norwegian' then pg_catalog.phraseto_tsquery('pg_catalog.norwegian'::regconfig, spaced_text(content))
  when 'portuguese' then pg_catalog.phraseto_tsquery('pg_catalog.portuguese'::regconfig, spaced_text(content))
  when 'romanian' then pg_catalog.phraseto_tsquery('pg_catalog.romanian'::regconfig, spaced_text(content))
  when 'russian' then pg_catalog.phraseto_tsquery('pg_catalog.russian'::regconfig, spaced_text(content))
  when 'serbian' then pg_catalog.phraseto_tsquery('pg_catalog.serbian'::regconfig, spaced_text(content))
  when 'spanish' then pg_catalog.phraseto_tsquery('pg_catalog.spanish'::regconfig, spaced_text(content))
  when 'swedish' then pg_catalog.phraseto_tsquery('pg_catalog.swedish'::regconfig, spaced_text(content))
  when 'tamil' then pg_catalog.phraseto_tsquery('pg_catalog.tamil'::regconfig, spaced_text(content))
  when 'turkish' then pg_catalog.phraseto_tsquery('pg_catalog.turkish'::regconfig, spaced_text(content))
  when 'yiddish' then pg_catalog.phraseto_tsquery('pg_catalog.yiddish'::regconfig, spaced_text(content))
end;
revoke all on function text_phrase(text, text) from public;
grant execute on function text_phrase(text, text) to kb_app;

-- Identifiers are indexed as a whole as well as in parts.
create or replace function identifier_lexemes(content text) returns tsvector
language sql immutable parallel safe
begin atomic
  select pg_catalog.array_to_tsvector(coalesce(array_agg(distinct lower(found[1])), '{}'))
  from pg_catalog.regexp_matches(content, '([[:alnum:]]+(?:[-._/:][[:alnum:]]+)+)', 'g') found
  where found[1] ~ '[0-9_.]' and length(found[1]) <= 200;
end;
revoke all on function identifier_lexemes(text) from public;
grant execute on function identifier_lexemes(text) to kb_app;

-- The title counts twice and has weight A.
create or replace function entry_lexemes(language text, title text, content text) returns tsvector
language sql immutable parallel safe
return case when title is null then text_lexemes(language, content) || identifier_lexemes(content)
       else setweight(text_lexemes(language, title), 'A') || setweight(text_lexemes(language, title), 'A')
            || text_lexemes(language, content) || identifier_lexemes(title || ' ' || content) end;
revoke all on function entry_lexemes(text, text, text) from public;
grant execute on function entry_lexemes(text, text, text) to kb_app;

-- The place of a word of a language in the vectors of lexeme_weights(); the same word of another language has another one.
create or replace function word_place(language text, lexeme text) returns integer
language sql immutable parallel safe
return (pg_catalog.hashtextextended((language || ' ' || lexeme) collate "C", 0) & 268435455)::integer + 1;
revoke all on function word_place(text, text) from public;
grant execute on function word_place(text, text) to kb_app, kb_keyword;

-- The words of an entry as BM25 needs them: 1 for each word at its place and, 2^28 places behind it, how much more a word
-- counts that occurs tf times: (tf - 1) / (tf + 1.2). keyword.search() multiplies both by factors of the entry's length,
-- so the weights depend on no other entry. Null for an entry with more words than the type can store, which
-- keyword.sum_words() counts in its lexemes.
create or replace function lexeme_weights(language text, lexemes tsvector) returns sparsevec
language sql immutable parallel safe
begin atomic
  select case when count(*) + count(*) filter (where w.tf > 1) <= 16000 then
           ('{' || string_agg(case when w.tf = 1 then w.place || ':1'
                                   else w.place || ':1,' || w.place + 268435456 || ':'
                                        || ((w.tf - 1) / (w.tf + 1.2::double precision))::real end,
                              ',') || '}/536870912')::sparsevec end
    from (select word_place(language, u.lexeme) as place, sum(coalesce(cardinality(u.positions), 1))::integer as tf
            from unnest(lexemes) u group by 1) w;
end;
revoke all on function lexeme_weights(text, tsvector) from public;
grant execute on function lexeme_weights(text, tsvector) to kb_app;

-- One expression, so that Postgres prepares that of entry_lexemes(), which names every language, once for a statement.
create or replace function entry_weights(language text, title text, content text) returns sparsevec
language sql immutable parallel safe
return lexeme_weights(language, entry_lexemes(language, title, content));
revoke all on function entry_weights(text, text, text) from public;
grant execute on function entry_weights(text, text, text) to kb_app;

-- Conversion of text to lexemes, for entries and queries. app/knowledge/words.py finds the same words in texts to be shown.

-- The characters of a run, each with the marks that belong to it.
create or replace function split_characters(run text) returns text[]
language sql immutable parallel safe
return case when run ~ '[\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef]'
            then pg_catalog.string_to_array(
                   rtrim(pg_catalog.regexp_replace(run, '[\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef][\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef]*', '\& ', 'g'), ' '), ' ')
            else pg_catalog.string_to_array(run, null) end;
revoke all on function split_characters(text) from public;
grant execute on function split_characters(text) to kb_reader, kb_keyword;

-- Scripts without spaces between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese), and Korean, whose words have
-- their particles attached: each run of such characters becomes overlapping pairs of characters, 機械学習 becomes
-- 機械 械学 学習. A character here includes its combining vowels, tone marks and variation selectors. So every part of a run
-- finds its text, whatever the words are, and the pairs have the order of the text.
-- Then characters get their compatible form: full-width letters and digits, half-width kana, ligatures, and
-- letters followed by combining marks. The last class has all characters that this may change. Each picture is a word by itself, and
-- marks of ownership end a word: Kestrel™ is not KestrelTM.
create or replace function paired_text(content text) returns text
language plpgsql immutable parallel safe
as $$
begin
  if content ~ '[\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef]' then
    content := regexp_replace(content, '[\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef]\ufe0f?', ' \& ', 'g');
    content := string_agg(case when part.found[1] is null then part.found[2] else ' ' || coalesce((
                 select string_agg(pair.one || pair.next, ' ') filter (where pair.next is not null)
                   from unnest(run.units, run.units[2:]) pair (one, next)), part.found[1]) || ' ' end, '' order by part.place)
      from regexp_matches(content, '((?:[\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef][\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef]*)+)|([^\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef]+)', 'g')
             with ordinality part (found, place)
     cross join lateral (select public.split_characters(part.found[1])) run (units);
  end if;
  if content ~ '[\u00aa\u00b2-\u00be\u0132-\u0140\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\u02b0-\u02e4\u0300-\u0385\u0387\u03d0-\u03f9\u0587\u0653-\u0678\u093c\u0958-\u095f\u09be-\u09df\u0a33-\u0a5e\u0b3e-\u0b5d\u0bbe-\u0bd7\u0c56\u0cc2-\u0cd6\u0d3e-\u0d57\u0dca-\u0ddf\u0e33\u0e38-\u0e3a\u0e48-\u0e4b\u0eb3\u0eb8-\u0eba\u0ec8-\u0ecb\u0edc\u0edd\u0f0c-\u0fb9\u102e\u1037\u1039\u103a\u10fc\u1161-\u11c2\u17d2\u17dd\u1b35\u1d2c-\u1dbf\u1e9a\u1e9b\u1f71-\u1fff\u2070-\u209c\u2100-\u218f\u2460-\u24ea\u2a0c-\u2adc\u2c7c-\u2d6f\u2e9f-\u2fd5\u3036-\u303a\u3099-\u309f\u30ff-\u33ff\ua69c-\ua7f9\uab5c-\uab69\uf900-\ufdff\ufe70-\ufefc\uff10-\uffee\U00010781-\U000107ba\U000110ba\U00011127\U0001133e\U00011357\U000113b8-\U000113c9\U000114b0-\U000114bd\U000115af\U00011930\U0001611e-\U00016129\U00016d67\U0001ccd6-\U0001ccf9\U0001d15e-\U0001d1c0\U0001d400-\U0001d7ff\U0001e030-\U0001e06d\U0001ee00-\U0001eebb\U0001f100-\U0001f251\U0001fbf0-\U0001fbf9\U0002f800-\U0002fa1d]' then
    content := normalize(regexp_replace(content, '[™℠]\ufe0f?', ' ', 'g'), nfkc);
  end if;
  return content;
end $$;
revoke all on function paired_text(text) from public;
grant execute on function paired_text(text) to kb_reader, kb_keyword;

-- Whether there are spellings that unified_text() changes; `marked` are the marked words of a text.
create or replace function has_spellings(marked text) returns boolean
language sql immutable parallel safe
return marked ~ '&|(?:^|[^[:alnum:]])(?:[A-Za-z](?:[a-z]?\.[A-Za-z]|[+#])|[Vv][0-9]+\.[0-9])';
revoke all on function has_spellings(text) from public;
grant execute on function has_spellings(text) to kb_reader;

-- Whether a text has soft hyphens, zero-width spaces or joiners.
create or replace function has_invisible(content text) returns boolean
language sql immutable parallel safe
return octet_length(content) <> length(content)
       and (strpos(content, U&'\00AD') > 0 or strpos(content, U&'\200B') > 0 or strpos(content, U&'\2060') > 0
            or strpos(content, U&'\FEFF') > 0);
revoke all on function has_invisible(text) from public;
grant execute on function has_invisible(text) to kb_reader, kb_keyword;

-- One spelling of what people write in several ways, in entries and in queries, before it is split into words:
-- invisible characters inside words (soft hyphens, zero-width spaces, word joiners) disappear, also as entities of HTML, and
-- other entities separate words; U.S.A. becomes USA, and Ph.D. PhD; v1.2 becomes 1.2; AT & T becomes AT&T; the characters of C++,
-- C# and A+ are spelt out, so that they are neither the letter nor nothing. app/knowledge/words.py reads the same spellings in
-- texts to be shown. Postgres caches 32 regular expressions, and a text beyond ASCII needs most of them: where another function
-- suffices, there is none.
create or replace function unified_text(content text) returns text
language plpgsql immutable strict parallel safe
as $$
begin
  if public.has_invisible(content) then
    content := translate(content, U&'\00AD\200B\2060\FEFF', '');
  end if;
  if strpos(content, '&') > 0 then
    content := regexp_replace(content, '&(?:shy|ZeroWidthSpace|#173|#8203|#x0*(?:ad|200b));', '', 'gi');
    content := regexp_replace(content, '&(?:amp|lt|gt|quot|apos|nbsp|(?:en|em|thin)sp|[mn]dash|hellip|[lr][sd]?a?quo|bull|middot|copy|reg|trade|times|deg|euro|[lr]arr|#[0-9]{1,7}|#x[0-9a-f]{1,6});', ' ', 'gi');
    content := replace(content, ' & ', '&');
  end if;
  if strpos(content, '.') > 0 then
    content := regexp_replace(content, '\m(?:([A-Za-z]|[A-Z][a-z])\.(?=(?:[A-Za-z]|[A-Z][a-z])\M)|[Vv](?=[0-9]+\.[0-9]))', '\1', 'g');
  end if;
  if strpos(content, '+') > 0 then
    content := regexp_replace(content, '\m([A-Za-z])\+\+', '\1plusplus ', 'g');
    content := regexp_replace(content, '\m([A-Za-z])\+(?=[^[:alnum:]+]|$)', '\1plus ', 'g');
  end if;
  if strpos(content, '#') > 0 then
    content := regexp_replace(content, '\m([A-Za-z])#(?![A-Za-z_])', '\1sharp ', 'g');
  end if;
  return content;
end $$;
revoke all on function unified_text(text) from public;
grant execute on function unified_text(text) to kb_reader, kb_keyword;

-- If LC_CTYPE is C, Postgres treats every character beyond ASCII as a letter: the words of
-- „word“ and it’s, or next to a no-break space, would include it and not be found without it. Symbols of Latin-1,
-- general punctuation (except joiners inside words), currencies, arrows to geometric shapes, supplemental punctuation,
-- and the punctuation of East Asian scripts become spaces. Letters, digits, fractions and pictures stay. Punctuation
-- inside words becomes spaces too, so that the parts of "vercel.json" or "KNOW-004" are found, and so do the characters that
-- would make the parser of Postgres read a word as a tag, an entity or a signed number, and skip or change it.
create or replace function spaced_text(content text) returns text
language sql immutable parallel safe
return case when octet_length(content) = length(content)
            then pg_catalog.regexp_replace(content, '[/_.:@#&<>+-]', ' ', 'g')
            else pg_catalog.regexp_replace(paired_text(content), '[\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b\u200e-\u206f\u20a0-\u20cf\u2190-\u2319\u231c-\u23e8\u23f4-\u23f7\u23fb-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\u30a0\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd/_.:@#&<>+-]\ufe0f?', ' ', 'g') end;
revoke all on function spaced_text(text) from public;
grant execute on function spaced_text(text) to kb_reader, kb_keyword;
comment on function spaced_text(text) is 'A text with spaces in place of the characters that separate words';

-- Readers type words without their diacritics: café and cafe, Łódź and Lodz, ёлка and елка, שָׁלוֹם and שלום are one word. `words` is
-- the text of a tsvector or a tsquery, whose words are stemmed, since the rules of stemmers and stop words need the
-- diacritics. й and other letters that are not a variant of another one stay. In German, haeuser and Häuser are one word too;
-- the stemmer of Postgres 18 reads it so, and in other versions this has the same effect. The uppercase letters are
-- for databases with the locale C, which has lowercase letters in ASCII only.
create or replace function folded_words(language text, words text) returns text
language plpgsql immutable parallel safe
as $$
begin
  if words ~ '[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f\u0180-\u024f\u0259\u0300-\u036f\u0386-\u03ab\u03ac-\u03b0\u03c2\u03ca-\u03ce\u03d3\u03d4\u0400-\u042f\u0450-\u0453\u045c\u045d\u0476\u0477\u0490\u0531-\u0556\u0591-\u05c7\u0610-\u061a\u0622-\u0626\u0629\u0640\u0649\u064b-\u065f\u0670\u06a9\u06c0-\u06d3\u06d6-\u06ed\u093c\u1e00-\u1fff\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]' then
    words := normalize(words, nfd);
    words := regexp_replace(words, '([A-Za-z\u00c0-\u02af\u0370-\u03ff\u0415\u0435\u1e00-\u1eff])[\u0300-\u036f]+|([\u0400-\u04ff])[\u0300\u0301]+', '\1\2', 'g');
    words := regexp_replace(words, '[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u093c\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]+', '', 'g');
    words := normalize(words, nfc);
    if words ~ '[ßæœþøđħŧłðıŋəſØĐĦŁŦÐςىیةکۀ]' then
      words := replace(replace(replace(replace(words, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'þ', 'th');
      words := translate(words, 'øđħŧłðıŋəſØĐĦŁŦÐςىیةکۀ', 'odhtldinesODHLTDσييهكه');
    end if;
    if lower('Α') = 'Α' and words ~ '[\u0391-\u03a9\u0402-\u042f\u0490\u0531-\u0556]' then
      words := translate(words, 'ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩЂЄЅІЈЉЊЋЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖ', 'αβγδεζηθικλμνξοπρστυφχψωђєѕіјљњћџабвгдежзийклмнопрстуфхцчшщъыьэюяґաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ');
    end if;
    words := lower(words);
  end if;
  if language = 'german' then
    words := regexp_replace(words, '([ao]|[^aeiouyq]u)e', '\1', 'g');
  end if;
  return words;
end $$;
revoke all on function folded_words(text, text) from public;
grant execute on function folded_words(text, text) to kb_reader, kb_keyword;

-- Lexemes without their diacritics. A word that has nothing else, such as a lone vowel sign or the Arabic elongation, is not
-- a lexeme: like a stop word, it leaves its position empty. No lexeme contains a space or a quotation mark.
create or replace function folded_lexemes(language text, lexemes tsvector) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  words constant text := lexemes::text;
  folded text := public.folded_words(language, words);
begin
  if folded = words then
    return lexemes;
  end if;
  if strpos(folded, '''''') > 0 then
    folded := regexp_replace(folded, '(^| )''''(:[0-9,A-D]+)?(?= |$)', '', 'g');
  end if;
  return folded::tsvector;
end $$;
revoke all on function folded_lexemes(text, tsvector) from public;
grant execute on function folded_lexemes(text, tsvector) to kb_reader, kb_keyword;

-- The words of a text with one spelling. `language` is the name of a text-search configuration of Postgres. Its values are those
-- of app/knowledge/words.py and of the check on `entries`; a test compares them.
create or replace function parsed_lexemes(language text, unified text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  lexemes constant tsvector := to_tsvector(('pg_catalog.' || language)::regconfig, public.spaced_text(unified));
begin
  if octet_length(unified) = length(unified) and language <> 'german' then
    return lexemes;
  end if;
  return public.folded_lexemes(language, lexemes);
end $$;
revoke all on function parsed_lexemes(text, text) from public;
grant execute on function parsed_lexemes(text, text) to kb_reader, kb_keyword;

create or replace function text_lexemes(language text, content text) returns tsvector
language sql immutable strict parallel safe
return parsed_lexemes(language, unified_text(content));
revoke all on function text_lexemes(text, text) from public;
grant execute on function text_lexemes(text, text) to kb_reader, kb_keyword;

-- The lexemes of a text as a query for entries that have them at the same distances, as phraseto_tsquery() makes it.
create or replace function text_phrase(language text, content text) returns tsquery
language plpgsql immutable strict parallel safe
as $$
begin
  return (
    select coalesce(string_agg(coalesce(' <' || w.place - w.former || '> ', '') || keyword.word_query(w.lexeme), ''
                               order by w.place, w.lexeme), '')::tsquery
      from (select u.lexeme, p.place, lag(p.place) over (order by p.place, u.lexeme) as former
              from unnest(public.text_lexemes(language, content)) u cross join unnest(u.positions) p (place)) w);
end $$;
revoke all on function text_phrase(text, text) from public;
grant execute on function text_phrase(text, text) to kb_reader;

-- The characters of the runs that become pairs in paired_text(), so that a query of one character finds them. Characters with
-- any number of marks would exceed the length of a lexeme.
create or replace function character_lexemes(content text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
begin
  if octet_length(content) = length(content) or content !~ '[\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef]' then
    return '';
  end if;
  return public.folded_lexemes('simple', array_to_tsvector(array(
    select normalize(u.unit, nfkc)
      from (select distinct unnest(public.split_characters(
              regexp_replace(content, '(?:^|[^\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef]+)[\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef]*', ' ', 'g'))) collate "C") u (unit)
     where length(u.unit) <= 50 and u.unit ~ '^[\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef]')));
end $$;
revoke all on function character_lexemes(text) from public;
grant execute on function character_lexemes(text) to kb_reader;

-- What of a text may have other forms, in one pass: most texts have little of it, and all else is done with that only. Each more
-- alternative in this expression makes it much slower, since the states of the parser of Postgres no longer fit in its cache.
create or replace function marked_words(content text) returns text
language sql immutable parallel safe
begin atomic
  select coalesce(pg_catalog.string_agg(distinct m.part[1] collate "C", ' '), '')
    from pg_catalog.regexp_matches(content, '[[:alnum:]]*(?:[A-Z]{2}|[a-z0-9]{2}[A-Z]|[-._/:][[:alnum:]]|[&#+]|0[Xx])[-._/:&#+[:alnum:]]*', 'g') m (part);
end;
revoke all on function marked_words(text) from public;
grant execute on function marked_words(text) to kb_reader;

-- The words that entries and queries have as a whole, or in parts, in addition to the parser's words: parts joined by
-- punctuation, with a digit, a dot or an underscore (vercel.json, KNOW-004); camelCase; names with & or a dot before them; and
-- codes with leading zeros or 0x. `unified` is the text after unified_text(); if it differs, the acronyms that it has without
-- their dots are words with them.
create or replace function special_words(content text, unified text) returns text[]
language plpgsql immutable strict parallel safe
as $$
declare
  words text[];
begin
  if unified = '' then
    return '{}';
  end if;
  words := array(
    select m.found[1] from regexp_matches(unified, '[[:alnum:]]+(?:[-/:][[:alnum:]]+)*[._][[:alnum:]]+(?:[-._/:][[:alnum:]]+)*|(?:[[:alnum:]]+[-/:])*[[:alnum:]]*[0-9][[:alnum:]]*(?:[-._/:][[:alnum:]]+)+|(?:[[:alnum:]]+[-/:])+[[:alnum:]]*[0-9][[:alnum:]]*', 'g') m (found));
  words := words || array(
    select m.found[1] from regexp_matches(unified, '[[:alnum:]]*(?:[a-z0-9]{2}[A-Z][a-z]|[a-z]{2}[A-Z]{2}|[A-Z]{2}[a-z]{2})[[:alnum:]]*', 'g') m (found));
  if strpos(unified, '&') > 0 or strpos(' ' || unified, ' .') > 0 or strpos(lower(unified), '0x') > 0 then
    words := words || array(
      select m.found[1] from regexp_matches(unified, '\m[A-Za-z]{1,5}(?:&[A-Za-z]{1,5})+\M(?!=)|(?:^|[[:space:]("])\.[A-Za-z][[:alnum:]]*|\m0[Xx][0-9A-Fa-f]{2,}\M', 'g') m (found));
  end if;
  if unified <> content then
    words := words || array(
      select m.found[1] from regexp_matches(content, '\m(?:[A-Za-z]|[A-Z][a-z])(?:\.(?:[A-Za-z]|[A-Z][a-z]))+\M', 'g') m (found));
  end if;
  return words;
end $$;
revoke all on function special_words(text, text) from public;
grant execute on function special_words(text, text) to kb_reader;

-- Names, which are words as a whole: identifiers such as KNOW-004 and vercel.json, in addition to their parts; AT&T and .NET,
-- with the sign spelt out. Entries and queries have the same ones.
create or replace function name_lexemes(words text[]) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  names text[];
begin
  if words = '{}' then
    return '';
  end if;
  names := array(
    select case when strpos(word, '&') > 0 then replace(lower(word), '&', 'and')
                when ltrim(word, E'("\n\t ') like '.%' then 'dot' || lower(ltrim(word, E'("\n\t .'))
                else lower(word) end
      from unnest(words) w (word) where translate(word, '-._/:&', '') <> word and length(word) <= 200);
  if octet_length(array_to_string(words, '')) = length(array_to_string(words, '')) then
    return array_to_tsvector(names);
  end if;
  return public.folded_lexemes('simple', array_to_tsvector(names));
end $$;
revoke all on function name_lexemes(text[]) from public;
grant execute on function name_lexemes(text[]) to kb_reader;

-- Words in parts that no punctuation separates: loadTariffTable is load Tariff Table, and a code has its number without leading
-- zeros and without 0x. Null if there are no such parts.
create or replace function parted_words(words text) returns text
language plpgsql immutable strict parallel safe
as $$
declare
  parts text := regexp_replace(words,
    '([a-z\u00df-\u00f6\u00f8-\u00ff])(?=[A-Z\u00c0-\u00d6\u00d8-\u00de][[:alpha:]])|([A-Z]{2,}|[0-9])(?=[A-Z][a-z]{2})', '\1\2 ', 'g');
begin
  if strpos(words, '0') > 0 then
    parts := regexp_replace(parts, '(^|[^.[:alnum:]])(?:0[Xx](?=[0-9A-Fa-f]{2})|0+(?=[1-9][0-9])|00+(?=[1-9]\M))', '\1', 'g');
  end if;
  return nullif(parts, words);
end $$;
revoke all on function parted_words(text) from public;
grant execute on function parted_words(text) to kb_reader;

-- The parts of special words, so that a query for a part finds an entry with the whole: of OAuth2Token also OAuth, Auth2 and Auth.
-- Words with hyphens, short ones with a slash and names with a short ending are also one word: sign-off is signoff, ORA-00942
-- ora00942, S/4HANA s4hana, and Node.js nodejs; `marked` has them.
-- These have no positions: phrases have the words as they stand. Other spellings (10 GB) are not here but in queries: see
-- find_spellings() in app/knowledge/search/query.py.
create or replace function part_lexemes(language text, words text[], marked text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  parts text;
  joined text;
begin
  if words <> '{}' then
    parts := public.parted_words(array_to_string(words, ' '));
    parts := regexp_replace(parts, '\m([A-Z])([A-Z][a-z]{2,}[0-9]*)\M', '\1\2 \2', 'g');
    parts := regexp_replace(parts, '\m([A-Za-z]{3,})[0-9]+\M', '\& \1', 'g');
  end if;
  if marked ~ '[-/.]' then
    joined := (select string_agg(translate(w.word, '-/.', ''), ' ') from unnest(string_to_array(marked, ' ')) m (word)
                 cross join lateral (select rtrim(m.word, '.:')) w (word)
                where translate(w.word, '-/.', '') <> w.word and w.word ~ '^(?:[[:alpha:]]{1,20}(?:-[[:alpha:]]{1,20}){1,2}|[[:alpha:]]{1,20}(?:-[0-9]{1,8}|\.[[:alpha:]]{1,3})|[0-9]{1,8}-[[:alpha:]]{1,20}|[[:alnum:]]{1,6}/[[:alnum:]]{1,6})$');
  end if;
  if parts is null and joined is null then
    return '';
  end if;
  return strip(public.parsed_lexemes(language, concat_ws(' ', parts, joined)));
end $$;
revoke all on function part_lexemes(text, text[], text) from public;
grant execute on function part_lexemes(text, text[], text) to kb_reader;

-- The dictionary of a language's words, which removes its stop words. Some languages have that of English for words in ASCII.
create or replace function stems_of(language text, is_ascii boolean) returns regdictionary
language plpgsql immutable parallel safe
as $$
begin
  return 'pg_catalog.' || case when language = 'simple' then language
                               when is_ascii and language in ('hindi', 'russian') then 'english_stem'
                               else language || '_stem' end;
end $$;
revoke all on function stems_of(text, boolean) from public;
grant execute on function stems_of(text, boolean) to kb_reader;

-- The stop words of a text with one spelling.
create or replace function stop_lexemes(language text, unified text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  words constant tsvector := to_tsvector('pg_catalog.simple', public.spaced_text(unified));
  stems constant regdictionary := public.stems_of(language, false);
  ascii_stems constant regdictionary := public.stems_of(language, true);
begin
  return public.folded_lexemes('simple', ts_delete(words, array(
    select w.lexeme from unnest(tsvector_to_array(words)) w (lexeme)
     where ts_lexize(case when octet_length(w.lexeme) = length(w.lexeme) then ascii_stems else stems end, w.lexeme)
           is distinct from '{}')));
end $$;
revoke all on function stop_lexemes(text, text) from public;
grant execute on function stop_lexemes(text, text) to kb_reader;

-- Stop words in capitals (IT, WHO) anywhere in a text, as words and as they stand, which ranks them before the same letters in
-- lowercase; so are other short words of capitals (UK, Go).
create or replace function capital_lexemes(language text, words text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  capitals text[] := array(select distinct m.part[1] collate "C" from regexp_matches(words, '\m(?:[A-Z]{2,4}|[A-Z][a-z])\M', 'g') m (part));
  stems constant regdictionary := public.stems_of(language, true);
begin
  if capitals = '{}' then
    return '';
  end if;
  return array_to_tsvector(array(
    select unnest(case when ts_lexize(stems, lower(w.word)) <> '{}' then case when length(w.word) = 2 then array[w.word] end
                       when w.word = upper(w.word) then array[lower(w.word), w.word] end)
      from unnest(capitals) w (word)));
end $$;
revoke all on function capital_lexemes(text, text) from public;
grant execute on function capital_lexemes(text, text) to kb_reader;

-- The stems of the words with diacritics as they are without them, for queries that are typed so: informação has the stem
-- inform, and informacao another one. Latin script only: elsewhere, stemmers do not remove diacritics.
create or replace function plain_lexemes(language text, content text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  words text;
begin
  if octet_length(content) = length(content) or language = 'simple' then
    return '';
  end if;
  select string_agg(distinct word.letters[1] collate "C", ' ') into words
    from regexp_matches(normalize(content, nfc), '([A-Za-z]*[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff][A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]*)', 'g') word (letters);
  if words is null then
    return '';
  end if;
  return array_to_tsvector(tsvector_to_array(public.text_lexemes(language, public.folded_words('simple', words))));
end $$;
revoke all on function plain_lexemes(text, text) from public;
grant execute on function plain_lexemes(text, text) to kb_reader;

-- The title counts twice and has weight A. Stop words are found in the first 120 characters, where names and titles are, and in
-- capitals everywhere; they come first, so that their positions are those of each other. An acronym with dots counts twice, for
-- both of its spellings. A tsvector has at most 1 MB: 100,000 characters that are nearly all different pairs may need more, and are
-- found by the first half of them.
create or replace function entry_lexemes(language text, title text, content text) returns tsvector
language plpgsql immutable parallel safe
as $$
declare
  whole text := coalesce(title || E'\n', '') || content;
  is_wide constant boolean := octet_length(whole) > length(whole);
  marked text := public.marked_words(whole);
  unified text := marked;
  special text[];
  name tsvector;
  stops tsvector;
  added tsvector := '';
begin
  if marked <> '' or is_wide then
    if public.has_spellings(marked) or public.has_invisible(whole) then
      title := public.unified_text(title);
      content := public.unified_text(content);
      whole := coalesce(title || E'\n', '') || content;
      unified := public.marked_words(whole);
    end if;
    special := public.special_words(marked, unified);
    added := public.name_lexemes(special) || public.part_lexemes(language, special, unified);
    if unified <> marked then
      added := added || to_tsvector('pg_catalog.simple', array_to_string(array(
        select replace(w.word, '.', '') from unnest(special) w (word)
         where length(w.word) = 2 * length(replace(w.word, '.', '')) - 1 and upper(w.word) <> lower(w.word)), ' '));
    end if;
    if is_wide then
      added := added || public.character_lexemes(whole) || public.plain_lexemes(language, whole);
    end if;
  end if;
  stops := public.stop_lexemes(language, left(whole, 120));
  added := added || public.capital_lexemes(language, left(whole, 120) || ' ' || unified);
  name := setweight(public.parsed_lexemes(language, title), 'A');
  if octet_length(content) > 150000 then
    begin
      return stops || coalesce(name || name, '') || public.parsed_lexemes(language, content) || added;
    exception when program_limit_exceeded then
      return public.entry_lexemes(language, title, left(content, length(content) / 2));
    end;
  end if;
  return stops || coalesce(name || name, '') || public.parsed_lexemes(language, content) || added;
end $$;
revoke all on function entry_lexemes(text, text, text) from public;
grant execute on function entry_lexemes(text, text, text) to kb_reader;

-- The lexemes to look for: those of the words, and the names of the query. `words` is the query, perhaps corrected, or empty if only
-- entries with its names as a whole are looked for. Stop words are left out, unless a short query has no others, or it writes one in
-- capitals or, inside a sentence, with a capital letter ("US warehouse", "songs by The Who"); AND, OR and NOT are not meant so. If
-- all are stop words, those in capitals are meant if there are any ("what is IT"). Only stop words and names have no positions then.
create or replace function asked_lexemes(language text, words text, query text) returns tsvector
language plpgsql immutable strict parallel safe
as $$
declare
  letters constant text := public.unified_text(words);
  unified text;
  marked text;
  names tsvector := '';
  lexemes tsvector;
  capitals text[];
  stems constant regdictionary := public.stems_of(language, true);
begin
  -- Most queries have nothing that marked_words() finds, which takes longer.
  if query ~ '[-._/:][[:alnum:]]|[&#+]|[0-9A-Za-z][A-Z]|0x' then
    unified := case when words = query then letters else public.unified_text(query) end;
    marked := public.marked_words(query);
    names := public.name_lexemes(public.special_words(marked, case when unified = query then marked else public.marked_words(unified) end));
  end if;
  if words = '' then
    return names;
  end if;
  lexemes := public.parsed_lexemes(language, letters);
  if lexemes = '' and names = '' and length(letters) <= 100 then
    lexemes := strip(public.parsed_lexemes('simple', letters));
    capitals := array(
      select distinct m.part[1] from regexp_matches(case when length(lexemes) = 1 then upper(letters) else letters end,
                                                    '\m[A-Z]{2,10}\M', 'g') m (part) where m.part[1] not in ('AND', 'OR', 'NOT') or length(lexemes) = 1);
    if capitals <> '{}' and letters <> upper(letters) then
      lexemes := array_to_tsvector(string_to_array(lower(array_to_string(capitals, ' ')), ' '));
    end if;
    return lexemes || array_to_tsvector(capitals);
  end if;
  if letters !~ '.[A-Z]|^[A-Z][a-z]?\M' then
    return lexemes || names;
  end if;
  return lexemes || names || array_to_tsvector(array(
    select distinct unnest(case
             when ts_lexize(stems, lower(w.word)) <> '{}' then case when length(w.word) = 2 then array[w.word] end
             when letters = upper(letters) and lower(replace(letters, w.word, '')) <> replace(letters, w.word, '')
                  or w.word in ('I', 'AND', 'OR', 'NOT') then null
             when length(w.word) > 1 and w.word = upper(w.word) then array[lower(w.word), w.word]
             when ltrim(letters, ' "''(') not like w.word || '%' and letters !~ ('[.!?:][[:space:]"''(]+' || w.word || '\M')
               then array[lower(w.word)] end) collate "C"
      from (select m.part[1] as word from regexp_matches(letters, '(?<![0-9A-Za-z_\u00aa-\u02ff\u0370-\u1fff\u2c00-\U0003ffff])[A-Z][A-Za-z]{0,3}(?![0-9A-Za-z_\u00aa-\u02ff\u0370-\u1fff\u2c00-\U0003ffff])', 'g') m (part)) w));
end $$;
revoke all on function asked_lexemes(text, text, text) from public;
grant execute on function asked_lexemes(text, text, text) to kb_reader;

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
grant execute on function linking_letters(text) to kb_reader, kb_keyword;

-- Parts of an entry's words, by which longer words are found: the ends of the title's words from five letters on, its whole words
-- after ^, and in languages with compounds, long words after ^ and backwards after <. The limits keep all within a tsvector.
create or replace function word_parts(language text, title text, lexemes tsvector) returns tsvector
language plpgsql immutable parallel safe cost 10000
as $$
declare
  parts text[] := '{}';
begin
  if title is not null then
    parts := array(
      select case n when 1 then '^' else '' end || substr(w.lexeme, n)
        from unnest(tsvector_to_array(public.text_lexemes('simple', title))) w (lexeme)
       cross join generate_series(1, length(w.lexeme) - 4) n
       where length(w.lexeme) <= 30 and w.lexeme !~ '[0-9]');
  end if;
  if public.linking_letters(language) is not null then
    parts := parts || array(
      select unnest(array['^' || w.lexeme, '<' || reverse(w.lexeme)]) from unnest(tsvector_to_array(lexemes)) w (lexeme)
       where length(w.lexeme) between 8 and 40 and w.lexeme !~ '[0-9]' limit 8000);
  end if;
  return array_to_tsvector(parts);
end $$;
revoke all on function word_parts(text, text, tsvector) from public;
grant execute on function word_parts(text, text, tsvector) to kb_reader, kb_keyword;

-- The place of a word of a language in the vectors of lexeme_weights(); the same word of another language has another one.
create or replace function word_place(language text, lexeme text) returns integer
language sql immutable parallel safe
return (pg_catalog.hashtextextended((language || ' ' || lexeme) collate "C", 0) & 268435455)::integer + 1;
revoke all on function word_place(text, text) from public;
grant execute on function word_place(text, text) to kb_reader, kb_keyword;

-- The words of an entry as BM25 needs them: 1 for each word at its place and, 2^28 places behind it, how much more a word
-- counts that occurs tf times: (tf - 1) / (tf + 1.2). A word without a position, another form of what stands in the text, has
-- 0.8: what is written as in the query comes first. keyword.search() multiplies both by factors of the entry's length,
-- so the weights depend on no other entry. Null for an entry with more words than the type can store, which
-- keyword.sum_words() counts in its lexemes.
create or replace function lexeme_weights(language text, lexemes tsvector) returns sparsevec
language sql immutable parallel safe
begin atomic
  select case when count(*) + count(*) filter (where w.tf > 1) <= 16000 then
           ('{' || string_agg(case when w.tf = 0 then w.place || ':0.8'
                                   when w.tf = 1 then w.place || ':1'
                                   else w.place || ':1,' || w.place + 268435456 || ':'
                                        || ((w.tf - 1) / (w.tf + 1.2::double precision))::real end,
                              ',') || '}/536870912')::sparsevec end
    from (select word_place(language, u.lexeme) as place, sum(coalesce(cardinality(u.positions), 0))::integer as tf
            from unnest(lexemes) u group by 1) w;
end;
revoke all on function lexeme_weights(text, tsvector) from public;
grant execute on function lexeme_weights(text, tsvector) to kb_reader;

-- The word_weights of an entry.
create or replace function entry_weights(language text, title text, content text) returns sparsevec
language sql immutable parallel safe
return lexeme_weights(language, entry_lexemes(language, title, content));
revoke all on function entry_weights(text, text, text) from public;
grant execute on function entry_weights(text, text, text) to kb_reader;

-- What near-duplicates have in common: a hash of the text without its numbers and dates, letter case and punctuation of
-- sentences. Null for a text of fewer than 20 other characters, as in "Error 4711": there the number is the content. Names of
-- months and days are parts of a date next to a number, in the languages that the list has; "march" alone is a word. Characters
-- that distinguish names, as in C++ and C#, stay.
create or replace function text_pattern(title text, content text) returns bigint
language plpgsql immutable parallel safe
as $$
declare
  pattern text := lower(coalesce(title || E'\n', '') || content);
begin
  if pattern ~ '[0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19]' then
    pattern := regexp_replace(pattern, '[0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19]+(?:[.,:/-][0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19]+)*(?:(?:st|nd|rd|th)\y)?', '0', 'g');
    if strpos(pattern, '0t0') > 0 then
      pattern := regexp_replace(pattern, '0t0(?:\.0)?z?', '0', 'g');
    end if;
    if pattern ~ '\y(?:jan|feb|f\u00e9v|fev|febbr|enero|genn|m\u00e4r|mar|ma\u00e9|maa|mrz|apr|avr|abr|mai|may|mei|mag|jun|juin|giu|jul|juil|lug|aug|ago|ao\u00fb|aou|sep|set|oct|okt|ott|out|nov|dec|dez|d\u00e9c|dic|mon|tue|wed|thu|fri|sat|sun|die|mit|don|fre|sam|lun|mer|jeu|ven|dim|jue|vie|s\u00e1b|dom)' then
      pattern := regexp_replace(pattern, '0[.,]?\s+(?:(?:de|of)\s+)?\y(?:january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|januar|februar|m\u00e4rz|maerz|mrz|mai|juni|juli|oktober|okt|dezember|dez|janvier|f\u00e9vrier|mars|avril|juin|juillet|ao\u00fbt|septembre|octobre|novembre|d\u00e9cembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|janeiro|fevereiro|mar\u00e7o|maio|junho|julho|setembro|outubro|novembro|dezembro|januari|februari|maart|mei|augustus)\y', '0', 'g');
      pattern := regexp_replace(pattern, '\y(?:january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|januar|februar|m\u00e4rz|maerz|mrz|mai|juni|juli|oktober|okt|dezember|dez|janvier|f\u00e9vrier|mars|avril|juin|juillet|ao\u00fbt|septembre|octobre|novembre|d\u00e9cembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|janeiro|fevereiro|mar\u00e7o|maio|junho|julho|setembro|outubro|novembro|dezembro|januari|februari|maart|mei|augustus)\y[.,]?\s+(?:(?:de|of)\s+)?0', '0', 'g');
      pattern := regexp_replace(pattern, '\y(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tue|wed|thu|fri|sat|sun|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi\u00e9rcoles|jueves|viernes|s\u00e1bado|domingo)\y[.,]?\s+(?:(?:the|den|le|el)\s+)?0', '0', 'g');
    end if;
    pattern := regexp_replace(pattern, '0(?:\s*[.,/-]?\s*0)+', '0', 'g');
  end if;
  -- A run of spaces and punctuation is one space, and so a space alone is not looked for.
  pattern := btrim(regexp_replace(pattern, '(?! )[\s.,;:!?"()]|[\s.,;:!?"()]{2,}', ' ', 'g'));
  -- Nearly every text has so many in its beginning.
  if length(regexp_replace(left(pattern, 60), '[\s!-@\[-`{-~]+', '', 'g')) < 20
     and length(regexp_replace(pattern, '[\s!-@\[-`{-~]+', '', 'g')) < 20 then
    return null;
  end if;
  return ('x' || left(md5(pattern), 16))::bit(64)::bigint;
end $$;
revoke all on function text_pattern(text, text) from public;
grant execute on function text_pattern(text, text) to kb_reader;

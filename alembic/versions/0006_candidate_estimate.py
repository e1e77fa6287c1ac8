"""The keyword leg chooses which candidates it scores by what they would score at least."""

from __future__ import annotations

from alembic import op
from app.db.schema.migration import execute_script

revision = "0006"
down_revision = "0005"

# (1 + 1/4 + 1/9 + … + 1/n^2 - 1/(2 n^2)) / 1.64493406685 for n from 1 to 64.
TOTALS = [sum(1 / (j * j) for j in range(1, n + 1)) for n in range(1, 65)]
OCCURRENCES = ",".join(
    f"{(total - 1 / (2 * n * n)) / 1.64493406685:.10f}" for n, total in enumerate(TOTALS, 1)
)

UP = """
-- BM25 (Robertson and Zaragoza, 2009; k1 = 1.2, b = 0.75) over the ordinary tsvector.
--
-- ts_rank of a single lexeme with equal weights is (1 + 1/4 + 1/9 + … + 1/tf^2) / 1.64493406685, so the
-- number of occurrences tf is read back from it by width_bucket. `occurrences` are the lower ends of its values for
-- 1, 2, … 64 occurrences: a constant, since making them took a tenth of a call.
--
-- The work is bounded, however many entries hold a common word: entries are taken from the rarest lexemes, up to
-- p_budget postings; the p_pool of them that would score best if each lexeme occurred once (a lower bound, which
-- knows rare words and short entries) are then scored by all lexemes of the query. Where even the rarest lexeme is
-- beyond the budget, entries that have it together with another one are taken too; where it is in more than 20
-- budgets, reading its postings in the index alone would take too long, and the newest entries are looked through.
--
-- p_lexemes, p_languages and p_frequencies go together: a lexeme counts in entries of its language only.
-- A null frequency is counted here, up to p_budget. p_weights lowers what a lexeme is worth (null: 1). p_phrases are
-- whole queries of their own, in p_phrase_languages; an entry that matches one gains as from a word that occurs
-- twice. `unknown` holds the lexemes that no entry has, as the language has them in which most are known: a query
-- in English is not misspelt because the tenant has some German too. `best` is the score of an entry that covers the
-- query: each of its lexemes twice in an entry of mean length.
create or replace function keyword.search(
  p_lexemes text[], p_languages text[], p_frequencies integer[], p_entries bigint, p_mean_length double precision,
  p_filter entry_filter, p_limit integer, p_budget integer, p_pool integer,
  p_weights double precision[] default null, p_phrases text[] default null, p_phrase_languages text[] default null)
returns table (entry_id uuid, updated_at timestamptz, score double precision, candidates bigint, best double precision,
               unknown text[])
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  tenant constant uuid := keyword.required_tenant();
  occurrences constant double precision[] := '{OCCURRENCES}';
  languages constant text[] := p_languages || coalesce(p_phrase_languages, '{}');
  queries tsquery[];
  frequencies bigint[];
  weights double precision[];
begin
  if coalesce(cardinality(p_lexemes), 0) = 0 then
    return;
  end if;
  select array_agg(w.query order by w.position), array_agg(w.frequency order by w.position)
    into queries, frequencies
    from (
      select t.position, q.query, coalesce(t.frequency, (
               select count(*) from (
                 select from entries e where e.tenant_id = tenant and e.lexemes @@ q.query limit p_budget) counted
             )) as frequency
        from (
          select l.lexeme, l.frequency, l.position, null as phrase
            from unnest(p_lexemes, p_frequencies) with ordinality l (lexeme, frequency, position)
          union all
          select null, null, cardinality(p_lexemes) + p.position, p.phrase
            from unnest(p_phrases) with ordinality p (phrase, position)) t
       cross join lateral (
         select coalesce(t.phrase, '''' || replace(replace(t.lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery as query) q
    ) w;
  select array_agg(coalesce(f.weight, 1) * ln(1 + (greatest(p_entries, f.frequency) - f.frequency + 0.5)
                                                  / (f.frequency + 0.5)) order by f.position)
    into weights
    from unnest(frequencies, p_weights) with ordinality f (frequency, weight, position);
  return query
    with words as materialized (
      select query, language, weight, frequency
        from unnest(queries, languages, weights, frequencies) w (query, language, weight, frequency)
    ), ranked as materialized (
      select u.query, u.frequency, row_number() over rarity as place, sum(u.frequency) over rarity <= p_budget as fits
        from (select query, max(frequency) as frequency from words where frequency > 0 group by query) u
      window rarity as (order by u.frequency, u.query::text)
    ), first_left_out as materialized (
      select r.query, r.place from ranked r where r.place = 1 and not r.fits and r.frequency <= 20 * p_budget
    ), drivers as materialized (
      select w.query, w.language, w.weight, false as together
        from ranked r join words w on w.query = r.query
       where r.fits or (r.place = 1 and r.frequency <= 20 * p_budget)
      union all
      select (format('(%s) & (%s)', l.query, string_agg(w.query::text, ' | ')))::tsquery, w.language,
             min(w.weight) + max(o.weight), true
        from first_left_out l
        join words o on o.query = l.query
        join words w on w.language = o.language
        join ranked r on r.query = w.query and r.place > l.place
       group by l.query, w.language
    ), postings as (
      -- A query that is the same in several languages is looked up once.
      select e.id, d.weight, d.together, e.text_length
        from (select distinct query, together from drivers) q
       cross join lateral (
         select e.id, e.text_length, e.language from entries e
          where e.tenant_id = tenant and e.lexemes @@ q.query and entry_matches(e, p_filter)
          limit case when q.together then p_budget / 2 else p_budget end) e
        join drivers d on d.query = q.query and d.language = e.language
      union all
      -- A word that a great many entries have says little: the newest of them will do.
      select e.id, w.weight, false, e.text_length
        from ranked r
        join words w on w.query = r.query
       cross join lateral (
         select n.id, n.text_length
           from (select e.id, e.text_length, e.lexemes, e.language from entries e
                  where e.tenant_id = tenant and entry_matches(e, p_filter)
                  order by e.id desc limit 4 * p_budget) n
          where n.lexemes @@ w.query and n.language = w.language) e
       where r.place = 1 and r.frequency > 20 * p_budget
    ), promising as materialized (
      select p.id, count(*) over () as candidates
        from (select id, greatest(sum(weight) filter (where not together), max(weight) filter (where together))
                         / (1.3 + 0.9 * min(text_length) / p_mean_length) as weight
                from postings group by id) p
       order by p.weight desc, p.id
       limit greatest(p_pool, p_limit)
    ), found as materialized (
      -- setweight makes one plain copy of a value that may be compressed, instead of one for each word.
      select e.id, e.updated_at, e.language, p.candidates, setweight(e.lexemes, 'D') as lexemes,
             0.3 + 0.9 * e.text_length / p_mean_length as length_norm
        from promising p
       cross join lateral (
         select x.id, x.updated_at, x.language, x.lexemes, x.text_length
           from entries x where x.tenant_id = tenant and x.id = p.id offset 0) e
    ), scored as (
      select f.id, f.updated_at, f.candidates, (
          select sum(w.weight * 2.2 * o.tf / (o.tf + f.length_norm))
            from words w
           cross join lateral (
             select case when numnode(w.query) > 1 then 2 * (f.lexemes @@ w.query)::integer
                         else width_bucket(ts_rank('{1,1,1,1}', f.lexemes, w.query)::double precision, occurrences)
                    end as tf) o
           where w.language = f.language and o.tf > 0) as score
        from found f
    )
    select s.id, s.updated_at, s.score, s.candidates,
           (select max(l.weight) * 2.2 * 2 / (2 + 1.2)
              from (select sum(w.weight) as weight from words w group by w.language) l),
           (select coalesce(array_agg(distinct u.lexeme) filter (where u.frequency = 0), '{}')
              from unnest(p_lexemes, p_languages, frequencies) u (lexeme, language, frequency)
             where u.lexeme is not null
             group by u.language order by count(*) filter (where u.frequency = 0), count(*) desc limit 1)
      from scored s
     order by s.score desc, s.updated_at desc, s.id
     limit p_limit;
end $$;
""".replace("OCCURRENCES", OCCURRENCES)


def upgrade() -> None:
    _run_as_owner(UP)


def downgrade() -> None:
    _run_as_owner(_released_function())


def _released_function() -> str:
    """The function as revision 0003 made it."""
    script = op.get_context().script.get_revision("0003").module.UP
    start = script.index("create function keyword.search(")
    end = script.index("end $$;", start) + len("end $$;")
    return script[start:end].replace("create function", "create or replace function", 1)


def _run_as_owner(function: str) -> None:
    execute_script(
        "grant create on schema keyword to kb_keyword; set local role kb_keyword;\n"
        f"{function}\n"
        "reset role; revoke create on schema keyword from kb_keyword;"
    )

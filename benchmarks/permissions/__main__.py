"""What permissions cost: `python -m benchmarks.permissions`. The database is built once and kept under `.bench/`."""

import argparse
import itertools
import logging
import secrets
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

import orjson

from app.auth.issuing import issue_token
from app.auth.principal import Role
from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import remark
from app.contract.search import SearchQuery
from app.db.principals import Rights
from app.errors import KnowledgeError
from benchmarks.contender import Question
from benchmarks.contenders.over_http import Client
from benchmarks.measures.words import read_words
from benchmarks.permissions.callers import Caller, list_callers
from benchmarks.permissions.completeness import measure_completeness
from benchmarks.permissions.report import Figures, print_figures, write_figures
from benchmarks.permissions.tenants import Scene, open_scene
from benchmarks.permissions.timing import Answer, Paired, time_in_turn
from benchmarks.place import KEPT
from benchmarks.serving import free_port, serve
from benchmarks.texts import make_queries

QUESTIONS, TIMED = 500, 100
"""Questions whose hits are compared, and those of them that are timed. One hit of a hundred questions would be a
thousandth of the recall."""
CACHED = 40
"""Questions over HTTP: fewer than the service's query cache holds."""


async def measure(entries: int, rounds: int) -> Figures:
    """Build what is missing, and measure everything. Raises KnowledgeError."""
    async with open_scene(entries, show_progress) as scene:
        callers = list_callers(scene)
        # About texts that each department has some of, without quotation marks, which are a condition of their own.
        originals = scene.stock.originals_of(scene.plain)
        queries = (q for q in make_queries(originals, 0, scene.stock.library.ask_about(originals)) if '"' not in q)
        texts = list(itertools.islice(queries, QUESTIONS))
        questions = [Question(text, await scene.services.provider.embed_query(text)) for text in texts]
        figures = Figures(entries)
        vectors, words = scene.vectors(), await read_words(scene.services, scene.plain.tenant_id, texts)
        for caller in callers:
            remark(f"completeness: {caller.name}")
            figures.completeness[caller.name] = await measure_completeness(
                scene.services, caller, questions, vectors, words
            )
        timed = questions[:TIMED]
        remark("time in process")
        ways = [(caller.name, _search(scene, caller, Rights.READ)) for caller in callers]
        figures.in_process = await time_in_turn(ways, timed, rounds)
        remark("time over HTTP")
        figures.over_http = await _time_over_http(scene, callers, timed[:CACHED], 2 * rounds)
        remark("time of the role")
        for caller in callers[:2]:
            ways = [
                (f"{caller.name}, {name}", _search(scene, caller, rights))
                for name, rights in (("role of the login", Rights.ALL), ("kb_reader", Rights.READ))
            ]
            figures.roles += await time_in_turn(ways, timed, rounds)
        return figures


def _search(scene: Scene, caller: Caller, rights: Rights) -> Answer:
    async def search(question: Question) -> object:
        assert question.vector is not None
        query = SearchQuery(query=question.text, query_embedding=question.vector.tolist())
        with caller.acting(rights):
            return await scene.services.search.search(caller.tenant.tenant_id, query)

    return search


async def _time_over_http(
    scene: Scene, callers: Sequence[Caller], questions: Sequence[Question], rounds: int
) -> list[Paired]:
    port, secret = free_port(), secrets.token_urlsafe(48)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve(scene.settings, scene.addresses, port, secret))
        ways: list[tuple[str, Answer]] = []
        for caller in callers:
            token = issue_token(
                secret,
                tenant_id=caller.tenant.tenant_id,
                roles={Role.READER},
                subject="benchmark",
                groups=caller.groups,
                ttl=7200,
            )
            client = Client(f"http://127.0.0.1:{port}/knowledge/search", token)
            stack.callback(client.close)

            async def search(question: Question, client: Client = client) -> object:
                return orjson.loads(await client.post({"query": question.text}))

            ways.append((caller.name, search))
        # Each process of the service has a cache of its own for the vectors of questions.
        return await time_in_turn(ways, questions, rounds, warm_up=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the tables; returns the exit status, 1 if a bound is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.permissions", description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000, help="entries of the large tenants")
    parser.add_argument("--rounds", type=int, default=5, help="how often each question is timed")
    chosen = parser.parse_args(arguments)
    logging.getLogger("app").setLevel(logging.WARNING)
    try:
        figures = run_async(measure(chosen.entries, chosen.rounds))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    print_figures(figures)
    print(write_figures(figures, KEPT))
    for fault in figures.faults():
        print(fault, file=sys.stderr)
    return int(bool(figures.faults()))


if __name__ == "__main__":
    sys.exit(main())

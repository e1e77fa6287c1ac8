"""A tenant with the same paragraphs in German and English: XQuAD's, and their originals in SQuAD."""

from dataclasses import replace

from app.evaluation.collection import Collection, Query

NAME = "german-english"


def mix_languages(german: Collection, english: Collection) -> Collection:
    """XQuAD's paragraphs and their originals, with its questions in both languages, grouped by the question's language.

    XQuAD is a translation of a part of SQuAD's development set, and its questions kept their ids: the paragraph that
    answers a question in one language is the translation of the one that answers it in the other. Both are relevant.
    """
    originals = {query.id: query for query in english.queries}
    queries: list[Query] = []
    for query in german.queries:
        original = originals.get(query.id)
        if original is None:
            continue
        judgements = {**query.judgements, **original.judgements}
        queries.append(replace(query, id=f"{query.id}/de", judgements=judgements, group="German question"))
        queries.append(replace(original, id=f"{query.id}/en", judgements=judgements, group="English question"))
    relevant = {document for query in queries for document in query.judgements}
    return Collection(
        NAME,
        f"{german.qrels}, joined by question",
        [*german.documents, *(d for d in english.documents if d.id in relevant)],
        queries,
        skipped=german.skipped + english.skipped,
        judged=len(queries),
    )

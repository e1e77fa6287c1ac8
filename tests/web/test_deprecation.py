"""A deprecated path says so in the document and in each answer."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated

import httpx
from fastapi import APIRouter, FastAPI
from pydantic import Field

from app.contract.validation import Described, request
from app.errors import EntryNotFound
from app.web.access import NamedRoute
from app.web.deprecation import deprecated
from app.web.problems import install_handlers

router = APIRouter(prefix="/made-up", route_class=NamedRoute)


@request
class Question:
    text: str
    old_limit: Annotated[int, Field(deprecated=True)] = 10


@dataclass(frozen=True, slots=True)
class Answer(Described):
    text: str
    old_score: Annotated[float, Field(deprecated=True)] = 0.0


@router.post("/old", openapi_extra=deprecated(date(2027, 1, 1), date(2027, 9, 30)))
async def ask_old(question: Question) -> Answer:
    if not question.text:
        raise EntryNotFound
    return Answer(question.text)


@router.post("/new")
async def ask(question: Question) -> Answer:
    return Answer(question.text)


async def test_a_deprecated_path_is_marked_in_the_document_and_in_each_answer() -> None:
    app = FastAPI()
    app.include_router(router)
    install_handlers(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://knowledge.test") as http:
        found = [await http.post("/made-up/old", json={"text": text}) for text in ("a", "")]
        new = await http.post("/made-up/new", json={"text": "a"})
    assert [answer.status_code for answer in (*found, new)] == [200, 404, 200]
    for answer in found:
        assert answer.headers["deprecation"] == "@1798761600"  # RFC 9745: seconds since 1970
        assert answer.headers["sunset"] == "Thu, 30 Sep 2027 00:00:00 GMT"  # RFC 8594
    assert not {"deprecation", "sunset"} & new.headers.keys()
    document = app.openapi()
    marks = [document["paths"][f"/made-up/{name}"]["post"].get("deprecated") for name in ("old", "new")]
    assert marks == [True, None]
    for shape, field in (("Question", "old_limit"), ("Answer", "old_score")):
        fields = document["components"]["schemas"][shape]["properties"]
        assert [fields[name].get("deprecated") for name in (field, "text")] == [True, None]

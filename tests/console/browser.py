"""A browser as the server sees it: cookies, the headers of its own pages, and the pages as trees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from lxml import html

from app.console.rendering import POLICY
from app.console.session import COOKIE
from app.console.visitor import SHOWN

ADDRESS = "http://console.test"
OWN = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
"""The headers that a browser adds to a form sent by a page of the console."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer and its tree."""

    answer: httpx.Response
    tree: Any

    @property
    def status(self) -> int:
        return self.answer.status_code

    @property
    def text(self) -> str:
        """All text that a reader sees, with white space collapsed."""
        return " ".join(self.tree.text_content().split())

    def all(self, selector: str) -> list[Any]:
        """Elements that match a CSS selector."""
        found: list[Any] = self.tree.cssselect(selector)
        return found

    def one(self, selector: str) -> Any:
        """The only element that matches a CSS selector."""
        (found,) = self.all(selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements, with white space collapsed."""
        return [" ".join(element.text_content().split()) for element in self.all(selector)]


@dataclass(frozen=True, slots=True)
class Browser:
    """A client of the console; it does not follow redirects."""

    http: httpx.AsyncClient

    async def get(self, path: str, params: Any = None, **options: Any) -> Page:
        """A page, checked for what every page must have."""
        return read_page(await self.http.get(path, params=params, **options))

    async def post(self, path: str, data: Mapping[str, Any] | None = None, **options: Any) -> Page:
        """Send a form as a page of the console does."""
        headers = {**OWN, **options.pop("headers", {})}
        return read_page(await self.http.post(path, data=data or {}, headers=headers, **options))

    async def search(self, query: str, **fields: Any) -> Page:
        """The search page with results."""
        page = await self.get("/console", {"query": query, **fields})
        assert page.status == 200, page.text
        return page


def all_fields(form: Any) -> dict[str, list[str]]:
    """The fields that a browser would send for an unchanged form."""
    found: dict[str, list[str]] = {}
    for name, value in form.form_values():
        found.setdefault(name, []).append(value)
    return found


def open_browser(app: FastAPI, token: str | None = None) -> Browser:
    """A browser, signed in with the token."""
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ADDRESS)
    if token is not None:
        client.cookies.set(COOKIE, token, domain="console.test", path="/console")
    return Browser(client)


def read_page(answer: httpx.Response) -> Page:
    """The page in an answer, checked: it has its policy, is not cached, and contains nothing that the policy would
    block. Its forms state which visitor they are for; in the tree, their addresses are without that.
    """
    tree = html.document_fromstring(answer.text or "<p></p>")
    if answer.text:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not tree.cssselect("[style], style, script:not([src])")
        assert not [name for e in tree.iter() for name in getattr(e, "attrib", {}) if name.startswith("on")]
        for element in tree.cssselect("[src], link"):
            assert (element.get("src") or element.get("href")).startswith("/console/files/")
        for form in tree.cssselect("form[method=post]"):
            action, _, shown = form.get("action").partition(f"?{SHOWN}=")
            assert shown or "/sign-" in action or action == "/console" or not tree.cssselect(".who"), action
            form.set("action", action)
    return Page(answer, tree)

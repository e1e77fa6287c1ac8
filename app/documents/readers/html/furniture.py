"""Separate the content of a page from menus, banners, notices and footers of the site."""

import re
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

from lxml import etree

_UNSEEN = (
    "head script style noscript template svg annotation annotation-xml iframe object embed canvas audio video map "
    "select textarea datalist dialog"
)
UNSEEN = frozenset(_UNSEEN.split())
"""Elements whose text is not part of the page's text."""
_SENTENCES = frozenset({"p", "li", "td", "dd"})

_Kind = Literal["menu", "paging", "notice", "anchor", ""]
_MENU = re.compile(
    r"(?<![a-z])(?:(?:top|bottom|sub|site|main|global|page|left|right|side)[-_]?)?(?:nav|menu)(?:igation|bar|head(?:er)?|"
    r"foot(?:er)?|[-_]?panel)?(?![a-z])|(?<![a-z])(?:breadcrumbs?|side-?bar|sphinxsidebar|toc|table-of-contents|"
    r"pager|pagination|related|footer|site-header|masthead|tags|languages?)(?![a-z])"
)
# The lines of a book around each of its pages, with its title and that of the chapter: few of them are links.
_PAGING = re.compile(r"(?<![a-z])(?:nav-?(?:header|footer)|doc-?nav)(?![a-z])")
_NOTICE = re.compile(
    r"(?:^|\s)(?:[a-z0-9]+[-_]+)*(?:cookies?|consent|gdpr|newsletter|popup|advert(?:isement)?|ads?|social|share|sharing)"
    r"(?:[-_]*(?:banner|notice|consent|bar|law|box|links?|buttons?|icons?|media|modal|overlay|widget|wrapper|signup|popup))*"
    r"(?:\s|$)"
)
_ANCHOR = re.compile(
    r"(?<![a-z])(?:headerlink|anchor(?:-?link|js-link)?|permalink|skip-?(?:link|nav|to-content)|linenos?|lineno|gutter)"
    r"(?![a-z])"
)
_NAMES: dict[_Kind, re.Pattern[str]] = {"anchor": _ANCHOR, "notice": _NOTICE, "paging": _PAGING, "menu": _MENU}
_NAVIGATION_ROLES = frozenset({"navigation", "search", "menu", "menubar"})
_ROLES = {"banner": "header", "contentinfo": "footer", "complementary": "aside"}
_KEPT = frozenset({
    *("html", "body", "main", "article", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "tr", "td", "th", "dt", "dd", "pre", "code"),
})  # fmt: skip
_BOXES = frozenset({"div", "section", "ul", "ol", "form"})
# The share of a menu's text that is links, and the lengths of the longest notice and mark of an anchor.
_LINKS = 0.5
_NOTICE_LENGTH = 1_000
_ANCHOR_LENGTH = 40
_PAGING_LENGTH = 500
_HEADS = frozenset({"h1", "main"})
_TITLES = frozenset({"h2", "h3", "h4", "h5", "h6"})
_HEADINGS = _TITLES | {"h1", "summary"}
_FORMS = frozenset({"form", "input", "button"})
# Elements that are measured in one page, some several times. In a page that needs more, the others are content.
_BUDGET = 400_000


class _Measured(NamedTuple):
    """The characters of an element and of its links, and whether it has the heading or the content of the page, or a
    heading and nothing to fill in."""

    text: int
    links: int
    heads: bool
    titled: bool

    def is_menu(self) -> bool:
        return self.links > _LINKS * self.text


class Furniture:
    """Finds the elements of one page that are not its content; work is bounded for every page."""

    def __init__(self) -> None:
        self._budget = _BUDGET

    def find_main(self, root: Any) -> Any:
        """The element that the page marks as its main content, None if it marks none or has more text outside of it."""
        marked = [e for e in root.iter("main", "div", "article", "section") if is_main(e)]
        if len(marked) != 1:
            articles = [] if marked else list(root.iter("article"))
            if len(articles) != 1:
                return None
            marked = articles
        if next(marked[0].iter("h1"), None) is None and any(map(self._heads_page, islice(root.iter("h1"), 10))):
            return None
        inside = sum(len(text.strip()) for text in marked[0].itertext())
        outside = 0
        walk = etree.iterwalk(root, events=("start",))
        for _, element in walk:
            if element is marked[0] or is_unseen(element) or self.surrounds(element, within=False):
                walk.skip_subtree()
            else:
                outside += len((element.text or "").strip())
            outside += len((element.tail or "").strip())
            if outside > inside:
                return None
        return marked[0] if inside else None

    def _heads_page(self, heading: Any) -> bool:
        """Whether a heading says more than a link, as the name of the site is, and is not that of a dialog."""
        found = self._measure(heading)
        if found is None or found.is_menu() or any(above.tag in UNSEEN for above in heading.iterancestors()):
            return False
        return any(text.strip() for text in islice(heading.itertext(), _PIECES))

    def surrounds(self, element: Any, *, within: bool) -> bool:
        """Whether an element is not content; `within`: it is in an element that the page marks as content."""
        tag = element.tag
        role = element.get("role")
        if tag == "nav" or role in _NAVIGATION_ROLES:
            return True
        part = _ROLES.get(role, tag) if role else tag
        if part in {"header", "footer", "aside"}:
            if within != (part == "header"):
                found = self._measure(element)
                return found is not None and (found.is_menu() or not (within or found.heads))
            return not within
        if tag in _KEPT:
            return False
        kind = _classify(element.get("class"), element.get("id"))
        found = self._measure(element) if kind and (kind != "notice" or tag in _BOXES) else None
        if found is None:
            return False
        if kind == "anchor":
            short = found.text <= _ANCHOR_LENGTH or "lineno" in str(element.get("class"))
            return short and not _is_heading(element)
        if kind == "paging":
            return not found.heads and found.links > 0 and found.text <= _PAGING_LENGTH
        if kind == "notice" and not (within and found.titled):
            return not found.heads and found.text <= _NOTICE_LENGTH
        return not found.heads and found.is_menu()

    def _measure(self, element: Any) -> _Measured | None:
        """Measure an element; None when the budget of the page is spent."""
        text = links = within_links = 0
        heads = titled = asks = False
        for event, part in etree.iterwalk(element, events=("start", "end")):
            if event == "start":
                self._budget -= 1
                if self._budget < 0:
                    return None
                within_links += part.tag == "a"
                heads = heads or part.tag in _HEADS
                titled = titled or part.tag in _TITLES
                asks = asks or part.tag in _FORMS
                shown = part.get("alt") if part.tag == "img" else part.text
                length = len((shown or "").strip())
            else:
                within_links -= part.tag == "a"
                length = len((part.tail or "").strip()) if part is not element else 0
            text += length
            links += length if within_links else 0
        return _Measured(text, links, heads, titled and not asks)


def is_main(element: Any) -> bool:
    """Whether the page marks this element as its main content."""
    return bool(element.tag == "main" or element.get("role") == "main")


def is_unseen(element: Any) -> bool:
    """Whether the text of an element is not part of the page's, as that of a formula that is there a second time, and
    of a button outside of a sentence."""
    parent = element.getparent()
    if element.tag == "math":
        return parent is not None and "mathml" in (parent.get("class") or "").lower()
    if element.tag == "button" and parent is not None:
        before = element.getprevious()
        text = (parent.text or "")[-_NEAR:] if before is None else f"{before.text or ''} {before.tail or ''}"[-_NEAR:]
        if parent.tag in _SENTENCES and any(
            map(str.isalnum, f"{text if parent.tag != 'td' else ''}{(element.tail or '')[:_NEAR]}")
        ):
            return False
        return not _is_heading(element)
    return element.tag in UNSEEN or element.tag == "button"


_NEAR = 200
_PIECES = 50
"""Characters and pieces of text that are looked at next to an element."""


def _is_heading(element: Any) -> bool:
    """Whether an element is all that a heading says."""
    heading = next(element.iterancestors(*_HEADINGS), None)
    if heading is None:
        return False
    whole, own = (list(islice(part.itertext(), _PIECES)) for part in (heading, element))
    letters = [sum(map(str.isalnum, "".join(pieces))) for pieces in (whole, own)]
    return len(whole) < _PIECES and letters[0] == letters[1] > 0


_FORMULAS = {
    "mfrac": "/",
    "msup": "^",
    "msub": "_",
    "mover": "^",
    "munder": "_",
    "mtr": " ",
    "mtable": "; ",
    "mroot": " ",
}
"""What is written between the parts of an element of a formula."""


def write_between(element: Any) -> str:
    """The sign before a part of a formula, as in a/b, x^2 and x_i^2."""
    parent, before = element.getparent(), element.getprevious()
    if parent is None or before is None:
        return ""
    if parent.tag in ("msubsup", "munderover"):
        return "_" if before.getprevious() is None else "^"
    return _FORMULAS.get(parent.tag, "")


def points_to_heading(element: Any) -> bool:
    """Whether a link in a heading is only a mark, as `#` or `¶`, that leads to the heading itself."""
    if element.tag != "a" or not (element.get("href") or "").startswith("#"):
        return False
    return not any(map(str.isalnum, "".join(element.itertext())))


def is_content(element: Any) -> bool:
    """Whether headers and asides in this element belong to it, and not to the site."""
    return is_main(element) or element.tag == "article"


@lru_cache(4_096)
def _classify(classes: str | None, identity: str | None) -> _Kind:
    name = f"{classes or ''} {identity or ''}"[:500].lower()
    if name == " ":
        return ""
    return next((kind for kind, names in _NAMES.items() if names.search(name)), "")

"""axe-core's findings on a page, for people who use a keyboard, a screen reader or high contrast."""

from functools import cache
from importlib.resources import files
from typing import Any

from tests.browser.visit import Visit

GRAVE = {"serious", "critical"}


async def find_barriers(visit: Visit) -> list[str]:
    """The serious and critical findings on the page in its current state, one line each with the elements."""
    # Through the debugger, to which the page's own policy does not apply.
    await visit.page.evaluate(_read_axe())
    found: dict[str, Any] = await visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): "
        + "; ".join(" ".join(map(str, node["target"])) for node in violation["nodes"])
        for violation in found["violations"]
        if violation["impact"] in GRAVE
    ]


async def find_faults(visit: Visit, name: str) -> list[str]:
    """Barriers on the page, and content that is wider than the screen."""
    found = [f"{name}: {barrier}" for barrier in await find_barriers(visit)]
    content, screen = await visit.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [*found, f"{name}: {content} px wide on a screen of {screen} px"] if content > screen else found


@cache
def _read_axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

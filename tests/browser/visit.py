"""One person's visit: a browser's tab, and a record of every forbidden event in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.site import Site

if TYPE_CHECKING:
    from playwright.async_api import (
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Locator,
        Page,
        Request,
        Response,
        Route,
        WebSocketRoute,
    )

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
"""The folder for screenshots of the pages; not in version control."""

PATIENCE = 60_000
"""Milliseconds after which an expected element counts as missing; long, for busy machines."""

REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
REFUSED = "Failed to load resource: the server responded with a status of 4"
CANCELLED = ("htmx:afterRequest,", "htmx:sendAbort,")
"""What htmx logs when the page cancels a request whose answer is not needed any more; failures have other messages."""

FILES = {"stylesheet", "script", "image", "font", "media", "manifest"}


# Without slots: Playwright keeps its wrappers of the methods below on the object.
@dataclass
class Visit:
    """A tab of a browser that reaches only the site."""

    page: Page
    site: Site
    faults: list[str] = field(default_factory=list)
    """Errors in the console, policy violations, dialogs, missing files, requests to other hosts."""
    requests: list[str] = field(default_factory=list)
    """The requests to the site, as `METHOD /path?query`."""
    also: str | None = None
    """The address of another site that the tab may reach."""

    async def watch(self, context: BrowserContext) -> None:
        """Start to record; call it before the first page is opened."""
        await context.route("**/*", self._let_through)
        await context.route_web_socket("**/*", self._refuse_socket)
        # Here and not in the route handler, because redirects bypass it.
        context.on("request", self._note)
        await context.add_init_script(REPORT_VIOLATIONS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("response", self._look_at)
        context.on("page", lambda page: self.faults.append(f"a window was opened: {page.url}"))

    async def open(self, path: str) -> None:
        """Open a page of the site, and wait until it has loaded."""
        await self.page.goto(self.site.address + path, wait_until="load")

    def expect(self, locator: Locator) -> Any:
        """Playwright's assertions, which wait a while for what they assert."""
        from playwright.async_api import expect

        expect.set_options(timeout=PATIENCE)
        return expect(locator)

    async def take_picture(self, name: str) -> None:
        """Save the whole page as `build/screenshots/<name>.png`."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def check(self) -> None:
        """Fail if a forbidden event occurred."""
        assert not self.faults, "\n".join(self.faults)

    async def _let_through(self, route: Route, request: Request) -> None:
        if self._is_inside(request) or self._is_known(request):
            await route.continue_()
        else:
            await route.abort()

    def _is_inside(self, request: Request) -> bool:
        return bool(request.url.startswith(f"{self.site.address}/"))

    def _is_known(self, request: Request) -> bool:
        return self.also is not None and bool(request.url.startswith(f"{self.also}/"))

    def _note(self, request: Request) -> None:
        if self._is_inside(request):
            self.requests.append(f"{request.method} {request.url.removeprefix(self.site.address)}")
        elif not self._is_known(request) and not request.url.startswith(("data:", "blob:")):
            self.faults.append(f"a request to elsewhere: {request.url[:200]}")

    def _refuse_socket(self, socket: WebSocketRoute) -> None:
        self.faults.append(f"a socket: {socket.url}")

    def _hear(self, message: ConsoleMessage) -> None:
        # Chromium also logs failed requests there: a page may expect such an answer and show it.
        if message.type in ("error", "warning") and not message.text.startswith((REFUSED, *CANCELLED)):
            self.faults.append(f"console: {message.text}")

    async def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    def _look_at(self, response: Response) -> None:
        if response.status >= 500 or (response.status >= 400 and response.request.resource_type in FILES):
            self.faults.append(f"{response.status} {response.url}")

"""Members of the tenant of a test, each with groups of its own."""

from app.auth.principal import Role
from tests.console.browser import Page
from tests.fixtures.http.callers import Caller, make_token


def join(admin: Caller, subject: str, *groups: str, role: Role = Role.CREATOR) -> Caller:
    """A caller of the admin's tenant."""
    token = make_token(admin.tenant_id, role, subject=subject, groups=groups)
    return Caller(admin.http, admin.tenant_id, token)


def offer(page: Page) -> dict[str, str]:
    """The form of a page that is refused because it shows everything in the tenant."""
    assert page.status == 403, page.text
    form = page.one("main form[action='/console/everything']")
    return dict(form.form_values())

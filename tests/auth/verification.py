"""A verifier for tests, and the proof that it refuses."""

import pytest

from app.auth.tokens import TokenVerifier
from app.errors import Unauthenticated
from tests.fixtures.identity.forgery import NOW, SECRET


def make_verifier(audience: str | None = None, issuer: str | None = None) -> TokenVerifier:
    """A verifier of `SECRET` whose clock is fixed at `NOW`."""
    return TokenVerifier(secret=SECRET, audience=audience, issuer=issuer, clock=lambda: NOW)


async def refuse(token: str, verifier: TokenVerifier | None = None) -> str:
    """The text of the refusal, which must be short, printable and without a cause."""
    with pytest.raises(Unauthenticated) as caught:
        await (verifier or make_verifier()).verify(token)
    text = str(caught.value)
    assert len(text) < 120
    assert text.isprintable()
    assert caught.value.__cause__ is None
    return text

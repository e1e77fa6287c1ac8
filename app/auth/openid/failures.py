"""Why a sign-in at the provider failed: a text for the person, and a reason for the log."""

from __future__ import annotations

from typing import ClassVar


class SignInFailed(Exception):
    """The sign-in ended without a session.

    The text is the `reason`, for the log: it names no person and contains no secret. `advice` is for the page; `{name}`
    in it stands for the provider's name.
    """

    advice: ClassVar[str] = "{name} could not sign you in. Try again, or ask your administrator."


class ProviderUnreachable(SignInFailed):
    """The provider did not answer, or not usably."""

    advice = "{name} does not answer at the moment. Try again in a minute."


class SignInExpired(SignInFailed):
    """No sign-in of this browser is open: too much time passed, or another one was started."""

    advice = "This sign-in has expired, or was not started in this browser. Start again."


class SignInDenied(SignInFailed):
    """The provider or the person refused."""

    advice = "{name} refused the sign-in."


class AccessMissing(SignInFailed):
    """The provider knows the person, but its claims give no tenant or no role."""

    advice = "Your account has no access to this service. Ask your administrator for a tenant and a role."


class TooManyGroups(SignInFailed):
    """The session of the person would be longer than a cookie can be."""

    advice = (
        "Your account has more groups than a session can hold. Ask your administrator to let {name} send only those"
        " that this service needs."
    )


class UnusableAnswer(SignInFailed):
    """The provider's token is not acceptable."""

    advice = "The answer of {name} could not be verified. Try again, or ask your administrator."

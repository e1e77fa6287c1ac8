"""A typed client of the knowledge search service."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_client.fields import *  # noqa: F403
    from knowledge_client.models import *  # noqa: F403
    from knowledge_client.public import *  # noqa: F403
else:

    def __getattr__(name):
        """A module, or a public name. They are loaded when they are first used: a call needs few of the modules."""
        from importlib import import_module
        from importlib.util import find_spec

        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        return getattr(import_module(f"{__name__}.public"), name)

    def __dir__():
        return [*globals(), *__getattr__("__all__")]

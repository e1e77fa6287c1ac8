"""Every setting of the service, from the environment or a file; only the composition root reads it."""

from app.settings.groups import DatabaseSettings, EmbeddingSettings, IngestionSettings, ServerSettings, Settings
from app.settings.loading import load_settings, variable_names

__all__ = [
    "DatabaseSettings",
    "EmbeddingSettings",
    "IngestionSettings",
    "ServerSettings",
    "Settings",
    "load_settings",
    "variable_names",
]

"""Environments that settings are read from."""

from app.settings import Settings, load_settings

SECRET = "s3cret-" * 5
SERVER = {"DATABASE_URL": "postgresql://kb:pw@db.example:5432/kb", "JWT_SECRET": SECRET}


def load(**env: str) -> Settings:
    return load_settings(env, env_file=None)

"""Commands in processes of their own, and the place of their service."""

import os
import subprocess
import sys
from dataclasses import dataclass

from app.cli.place import Place, find_place
from app.settings import Settings, load_settings

OPENED = "sqlalchemy"
"""A module that is loaded only by a command that opens the database itself."""

COMMAND = (
    "import sys; from app.cli.main import main; status = main(sys.argv[1:]);"
    f" print('opened' if '{OPENED}' in sys.modules else 'asked', file=sys.stderr); sys.exit(status)"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a command, and whether it opened the database itself."""

    status: int
    out: str
    err: str
    opened: bool


def run_command(*arguments: str, **environment: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, env=os.environ | environment
    )
    *err, how = done.stderr.splitlines()
    assert how in ("opened", "asked"), done.stderr
    return Outcome(done.returncode, done.stdout, "\n".join(err), how == "opened")


def read_settings() -> Settings:
    return load_settings(identity_required=False)


def current_place() -> Place:
    place = find_place(read_settings())
    assert place is not None
    return place

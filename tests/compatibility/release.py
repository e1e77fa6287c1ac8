"""Record what this version promises to callers, and a database of its revision: `make release`, once for a release."""

from docs.version import read_version
from tests.compatibility import database
from tests.compatibility.promises import RECORD, render
from tests.compatibility.surface import read_promises

if __name__ == "__main__":
    RECORD.write_text(render(read_version(), read_promises()), "utf-8")
    database.write_missing()

"""Record what this version promises to callers: `make release`, once, when it is released."""

from docs.version import read_version
from tests.compatibility.promises import RECORD, render
from tests.compatibility.surface import read_promises

if __name__ == "__main__":
    RECORD.write_text(render(read_version(), read_promises()), "utf-8")

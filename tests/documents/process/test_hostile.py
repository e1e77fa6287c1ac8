"""A hostile file ends with a reason that its uploader can act on, and costs no more than the limits."""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace

import pytest

from app.documents.formats import detect_format, expect_formats
from app.documents.parsed import ParseLimits
from app.documents.process.parsing import parse_document
from app.errors import UnreadableDocument
from tests.documents.hostile import ATTACKS, HARMLESS, LIMITS, TOO_SLOW, Attack


@dataclass(frozen=True, slots=True)
class Cost:
    """The resources that a reading process used."""

    peak_bytes: int
    processor_seconds: float


# A small process starts the reader, because the peak that the system reports for a process includes its
# parent's.
_LAUNCHER = """
import json, os, resource, subprocess, sys
start = "from app.documents.process.child import main; main()"
subprocess.run([sys.executable, "-c", start, str(os.getpid())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([usage.ru_maxrss, usage.ru_utime + usage.ru_stime]))
"""


def measure_child(data: bytes, name: str, limits: ParseLimits) -> Cost:
    """Read a file in a confined process of this test and return the cost that the system reports."""
    kind = detect_format(data, name)
    request = {
        "format": kind.name,
        "readers": [item.name for item in expect_formats(kind, data)],
        "limits": asdict(limits),
        "ocr": "absent",
        "codec": None,
        "guesses": False,
    }
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(request).encode() + b"\n" + data)
        file.seek(0)
        launched = subprocess.run(
            [sys.executable, "-c", _LAUNCHER], stdin=file, capture_output=True, check=True, timeout=60
        )
    peak, seconds = json.loads(launched.stdout)
    return Cost(peak if sys.platform == "darwin" else peak * 1024, seconds)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.title)
async def test_attack_ends_with_a_reason(attack: Attack) -> None:
    # On a busy machine, any file can take long.
    limits = LIMITS if attack.reason == TOO_SLOW else replace(LIMITS, seconds=120)
    with pytest.raises(UnreadableDocument, match=attack.reason):
        await parse_document(attack.data, attack.name, limits)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("attack", [*ATTACKS, *HARMLESS], ids=lambda attack: attack.title)
def test_attack_costs_no_more_than_the_limits(attack: Attack) -> None:
    cost = measure_child(attack.data, attack.name, LIMITS)
    assert cost.peak_bytes <= LIMITS.memory_bytes
    assert cost.processor_seconds <= LIMITS.seconds + 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("attack", HARMLESS, ids=lambda attack: attack.title)
async def test_odd_file_is_read(attack: Attack) -> None:
    limits = replace(LIMITS, seconds=120)
    assert attack.reason in (await parse_document(attack.data, attack.name, limits)).text

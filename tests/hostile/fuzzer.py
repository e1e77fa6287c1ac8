"""Runs schemathesis against a served application, as two tenants that must not see each other's data."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).with_name("fuzz_rules.py")
CONFIGURATION = f"""
seed = 20260115
hooks = "{RULES}"
[auth.wfc]
path = "tokens.json"
peers = ["first", "second"]
[generation]
deterministic = true
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "401", "403", "404", "409", "410", "412", "413", "415", "429"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "413", "415", "422", "429"]
"""
"""`positive`: statuses that depend on stored data or on bytes, which a schema does not describe."""


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """The outcome of a run: requests sent, operations reached, findings by title, and the full report as text."""

    requests: int
    operations: int
    findings: Sequence[str]
    report: str


async def fuzz(
    folder: Path,
    address: str,
    tokens: Mapping[str, str],
    *options: str,
    sender: str,
    canaries: Mapping[str, str] | None = None,
) -> FuzzResult:
    """Run schemathesis with `options` against the service at `address`, with the token of `sender`.

    `tokens` are by name, `first` and `second` being those of two tenants; `canaries` are words that only the
    entries of the tenant of that name hold. `folder` is for files.
    """
    folder.joinpath("schemathesis.toml").write_text(CONFIGURATION, encoding="utf-8")
    users = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {token}"}]}
        for name, token in tokens.items()
    ]
    folder.joinpath("tokens.json").write_text(json.dumps({"auth": users}), encoding="utf-8")
    words = {f"FUZZ_CANARY_{name.upper()}": word for name, word in (canaries or {}).items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"),
        *("--checks", "all", "--auth-wfc-user", sender, "--continue-on-failure", "--no-color"),
        *(
            "--request-timeout",
            "60",
            "--max-response-time",
            "60",
            "--report",
            "json",
            "--report-json-path",
            "report.json",
            *options,
        ),
        cwd=folder,
        env={**os.environ, **words, "NO_PROXY": "127.0.0.1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    outcome = json.loads(folder.joinpath("report.json").read_text(encoding="utf-8"))
    findings = [str(failure.get("title")) for failure in outcome["failures"]]
    findings += [error["title"] for error in outcome["errors"]]
    return FuzzResult(
        requests=outcome["test_cases"]["generated"],
        operations=(outcome["operations"] or {}).get("tested", 0),
        findings=findings if findings or process.returncode == 0 else [f"exit status {process.returncode}"],
        report=output.decode(errors="replace"),
    )

"""The client's README: its code runs as written."""

import re
from pathlib import Path

import pytest

from tests.fixtures.http.running_service import RunningService

README = Path(__file__).parents[2] / "clients" / "python" / "README.md"
QUICK_START, LANGCHAIN, LLAMAINDEX = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture(autouse=True)
def surroundings(service: RunningService, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader has at hand: the service, a token, a handbook."""
    (tmp_path / "handbook.md").write_text("# Radio\n\nThe harbour master listens to channel 12 of the radio.\n")
    monkeypatch.chdir(tmp_path)
    for name, value in (("URL", service.url), ("TOKEN", token)):
        monkeypatch.setenv(f"KB_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_the_quick_start_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(QUICK_START, str(README), "exec"), {})  # noqa: S102
    lines = capsys.readouterr().out.splitlines()
    assert any("Harbour hours: Ships may enter" in line for line in lines)
    assert any("handbook.md: " in line for line in lines)


@pytest.mark.slow
def test_the_langchain_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    names: dict[str, object] = {}
    exec(compile(QUICK_START + LANGCHAIN, str(README), "exec"), names)  # noqa: S102
    names["client"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.splitlines()[-2:] == ["Harbour hours", "berths"]


@pytest.mark.slow
def test_the_llamaindex_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llama_index.core", reason="`make test-llamaindex` installs LlamaIndex")
    names: dict[str, object] = {}
    exec(compile(QUICK_START + LLAMAINDEX, str(README), "exec"), names)  # noqa: S102
    names["client"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.splitlines()[-2:] == ["Harbour hours", "berths"]

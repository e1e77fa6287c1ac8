"""Files with the same external_id or the same bytes as another one, which its readers may not always change."""

from __future__ import annotations

from tests.isolation.readers.conftest import Join

TEXT = b"# Payroll\n\nThe payroll of the harbour pilots is due in May.\n"
PAY = {"external_id": "pay"}


async def test_a_file_is_not_written_over_another_one_in_the_place_of_a_closed_one(join: Join) -> None:
    ann, ben, cleo = join("ann", "finance"), join("ben", "finance", "payroll"), join("cleo", "board")
    finance = {**PAY, "readers": ["group:finance"]}
    closed = (await ben.upload("a.md", TEXT, "text/markdown", **finance, writers=["group:payroll"])).json()
    opened = (await cleo.upload("b.md", b"The pier opens.", "text/markdown", **PAY)).json()
    assert opened["id"] != closed["id"]
    for text in (b"Mine.", TEXT):
        refused = await ann.upload("c.md", text, "text/markdown", **finance)
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-a-writer")
    for asset in (closed, opened):
        assert (await ann.get(f"/knowledge/assets/{asset['id']}")).json()["name"] == asset["name"]

"""Files with the same external_id or the same bytes as another one, which its readers may not always change."""

from tests.isolation.readers.changing import change
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


async def test_readers_that_make_two_files_the_same_are_refused(join: Join) -> None:
    """Files with the same external_id or bytes differ by their readers."""
    ann, ben, bo = join("ann", "finance"), join("ben", "hr"), join("bo", "finance", "hr")
    for given, text in ((PAY, TEXT), ({}, b"The pier opens.")):
        first, second = [
            (await caller.upload("a.md", text, "text/markdown", **given, readers=[group])).json()
            for caller, group in ((ann, "group:finance"), (ben, "group:hr"))
        ]
        path = f"/knowledge/assets/{second['id']}"
        refused = await bo.patch(path, {"readers": ["group:finance"]})
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/asset-exists")
        assert refused.json()["existing_id"] == first["id"]
        where = {"ids": [first["id"], second["id"]]}
        tried = await change(bo, where, readers={"set": ["group:finance"]}, dry_run=True)
        done = await change(bo, where, readers={"set": ["group:finance"]})
        assert tried == done
        assert (done["matched"], done["changed"], [r["id"] for r in done["refused"]]) == (2, 0, [second["id"]])
        assert (await bo.patch(path, {"readers": ["group:hr", "user:bo"]})).status_code == 200


async def test_readers_that_make_two_entries_the_same_are_refused(join: Join) -> None:
    ann, ben, bo = join("ann", "finance"), join("ben", "hr"), join("bo", "finance", "hr")
    for given, text in ((PAY, "The payroll"), ({}, "The pier opens")):
        first = await ann.add(text, **given, readers=["group:finance"])
        second = await ben.add(text, **given, readers=["group:hr"])
        for dry_run in (True, False):
            where = {"ids": [first["id"], second["id"]]}
            done = await change(bo, where, readers={"set": ["group:finance"]}, dry_run=dry_run)
            assert (done["changed"], [each["id"] for each in done["refused"]]) == (0, [second["id"]])
            assert first["id"] in done["refused"][0]["reason"]

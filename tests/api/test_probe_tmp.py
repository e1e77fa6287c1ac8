import json, io
import httpx
from tests.api.callers import open_client


async def show(label, answer):
    print(f"\n[{label}] {answer.status_code} {answer.headers.get('content-type')} {answer.text[:300]}")


async def test_probe(admin, reader, http, app, provider, platform):
    A = {"Authorization": f"Bearer {admin.token}"}
    J = {**A, "Content-Type": "application/json"}
    S = "/knowledge/search"
    e = await admin.add("The quick brown fox", tags=["a", "b"])
    await show("entry", await admin.get(f"/knowledge/entries/{e['id']}"))
    await show("search", await admin.post(S, {"query": "fox", "explain": True}))
    for label, body in {
        "surrogate": b'{"query":"\\ud800"}',
        "nul": b'{"query":"a\\u0000"}',
        "nan": b'{"query":"a","similarity_threshold":NaN}',
        "inf": b'{"query":"a","query_embedding":[Infinity]}',
        "broken": b'{"query":',
        "notobj": b"[1]",
        "empty": b"",
        "badutf8": b'{"query":"\xff"}',
        "deep": b'{"query":"a","metadata":' + b'{"a":' * 100000 + b"1" + b"}" * 100000 + b"}",
        "deep300": b'{"query":"a","metadata":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}",
        "keysurr": b'{"query":"a","\\ud800":1}',
        "metasurr": b'{"query":"a","metadata":{"\\ud800":1}}',
        "metasurr2": b'{"query":"a","metadata":{"a":"\\ud800"}}',
        "metanul": b'{"query":"a","metadata":{"a":"\\u0000"}}',
        "tagsurr": b'{"query":"a","tags":["\\ud800"]}',
        "types": b'{"query":"a","entry_type":["x"]}',
        "types2": b'{"query":"a","entry_type":"x"}',
        "thr": b'{"query":"a","similarity_threshold":2}',
        "weights": b'{"query":"a","weights":{"semantic":0.5,"keyword":0.6}}',
        "w2": b'{"query":"a","weights":{"semantic":-0.5,"keyword":1.5}}',
        "cursorbad": b'{"query":"a","cursor":"\\u00e9"}',
        "cursornone": b'{"query":"a","cursor":"AAAAAAAAAAAAAAAAAAAAAAAAAAA"}',
        "bigint": b'{"query":"a","limit":99999999999999999999999}',
        "metabig": b'{"query":"a","metadata":{"a":99999999999999999999999}}',
        "metanan": b'{"query":"a","metadata":{"a":NaN}}',
        "qe_huge": b'{"query":"a","query_embedding":[1e308,1e308,1e308,1,1,1,1,1,1,1,1,1,1,1,1,1]}',
        "qe_tiny": b'{"query":"a","query_embedding":[1e-320,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}',
    }.items():
        await show(label, await http.post(S, content=body, headers=J))
    await show(
        "text/plain",
        await http.post(S, content=b'{"query":"a"}', headers={**A, "Content-Type": "text/plain"}),
    )
    await show("no ct", await http.post(S, content=b'{"query":"a"}', headers=A))
    await show("form", await http.post(S, data={"query": "a"}, headers=A))
    await show(
        "multipart broken",
        await http.post(
            "/knowledge/assets",
            content=b"garbage",
            headers={**A, "Content-Type": "multipart/form-data; boundary=x"},
        ),
    )
    await show(
        "multipart noboundary",
        await http.post(
            "/knowledge/assets", content=b"garbage", headers={**A, "Content-Type": "multipart/form-data"}
        ),
    )
    await show("asset json", await http.post("/knowledge/assets", json={}, headers=A))
    await show("asset nofile", await http.post("/knowledge/assets", data={"tags": "a"}, headers=A))
    await show(
        "asset two",
        await http.post(
            "/knowledge/assets",
            files=[("file", ("a.txt", b"one", "text/plain")), ("file", ("b.txt", b"two", "text/plain"))],
            headers=A,
        ),
    )
    await show(
        "asset extra",
        await http.post(
            "/knowledge/assets",
            files={"file": ("../../c.txt", b"three")},
            data={"bogus": "1", "metadata": '{"a":1}', "tags": "x, y"},
            headers=A,
        ),
    )
    await show(
        "asset surr",
        await http.post(
            "/knowledge/assets", files={"file": ("d.txt", b"four")}, data={"external_id": "a\0b"}, headers=A
        ),
    )
    await show(
        "asset badmeta",
        await http.post(
            "/knowledge/assets", files={"file": ("d.txt", b"four")}, data={"metadata": "{"}, headers=A
        ),
    )
    await show(
        "asset longname",
        await http.post("/knowledge/assets", files={"file": ("d" * 600 + ".txt", b"four")}, headers=A),
    )

    async def chunks(n):
        for _ in range(n):
            yield b" " * (1 << 20)

    await show("chunked big json", await http.post(S, content=chunks(40), headers=J))
    await show(
        "chunked big upload",
        await http.post(
            "/knowledge/assets",
            content=chunks(60),
            headers={**A, "Content-Type": "multipart/form-data; boundary=x"},
        ),
    )
    await show(
        "40MB no token",
        await http.post(S, content=b" " * (40 << 20), headers={"Content-Type": "application/json"}),
    )
    await show(
        "60MB", await http.post("/knowledge/assets", files={"file": ("d.txt", b"a" * (60 << 20))}, headers=A)
    )
    await show(
        "50.5MB",
        await http.post("/knowledge/assets", files={"file": ("d.txt", b"a" * ((50 << 20) + 1))}, headers=A),
    )
    for label, extra in {
        "max date": {"expires_at": "9999-12-31T23:59:59-12:00"},
        "min date": {"expires_at": "0001-01-01T00:00:00+12:00"},
        "naive": {"expires_at": "2030-01-01T00:00:00"},
        "num": {"expires_at": 1e30},
        "date": {"expires_at": "2030-01-01"},
        "lang": {"language": "klingon"},
        "parent": {"parent_id": "0190b8f6-0000-7000-8000-000000000000"},
        "metanan": {"metadata": {"a": float("inf")}},
        "conf": {"confidence": True},
        "chunk": {"entry_type": "chunk"},
        "strbool": {"is_verified": "yes"},
        "blank": {"content": "  "},
        "ext": {"external_id": "  "},
    }.items():
        await show(
            "E " + label,
            await http.post(
                "/knowledge/entries", content=json.dumps({"content": "c " + label, **extra}), headers=J
            ),
        )
    await show(
        "bulk surr",
        await http.post(
            "/knowledge/entries/bulk",
            content=b'{"entries":[{"content":"b1"},{"content":"b2","\\ud800":1}]}',
            headers=J,
        ),
    )
    await show(
        "bulk surr2",
        await http.post(
            "/knowledge/entries/bulk",
            content=b'{"entries":[{"content":"b1"},{"content":"b2\\ud800"},{"content":"x","metadata":{"\\ud800":1}}, {"content":"x","expires_at":"9999-12-31T23:59:59-12:00"}]}',
            headers=J,
        ),
    )
    await show(
        "bulk mixed",
        await http.post(
            "/knowledge/entries/bulk",
            content=b'{"entries":[{"content":"b1"},7,{"content":"y","bogus":1}]}',
            headers=J,
        ),
    )
    for q in [
        "tag=%00",
        "external_id=%00",
        "limit=0",
        "limit=x",
        "cursor=%00",
        "cursor=zzz",
        "cursor=é",
        "tag=%ED%A0%80",
        "bogus=1",
        "entry_type=x",
        "asset_id=x",
        "cursor=f_________8AAAAAAAAAAAAAAAAAAAAA",
    ]:
        await show("list " + q, await admin.get("/knowledge/entries?" + q))
    await show("patch settings", await admin.patch("/admin/settings", {"max_limit": 5}))
    await show("search after", await admin.post(S, {"query": "fox"}))
    await show("patch 2", await admin.patch("/admin/settings", {"default_limit": 50}))
    await show(
        "patch nan", await http.patch("/admin/settings", content=b'{"similarity_threshold":NaN}', headers=J)
    )
    await show(
        "patch str",
        await http.patch(
            "/admin/settings", content=b'{"similarity_threshold":"0.2","keep_query_text":"yes"}', headers=J
        ),
    )
    await show(
        "patch tw", await http.patch("/admin/settings", content=b'{"type_weights":{"fact":NaN}}', headers=J)
    )
    await show(
        "patch tw", await http.patch("/admin/settings", content=b'{"type_weights":{"\\ud800":1}}', headers=J)
    )
    await show(
        "patch w",
        await http.patch("/admin/settings", content=b'{"weights":{"semantic":0.5,"keyword":0.6}}', headers=J),
    )
    await show("stats", await admin.get("/admin/stats"))
    await show("audit", await admin.get("/admin/audit"))
    await show("tenants", await platform.post("/admin/tenants", {"slug": "UPPER"}))
    await show("tenants", await platform.post("/admin/tenants", {"slug": "a\n"}))
    await show(
        "tenants",
        await http.post(
            "/admin/tenants",
            content=b'{"slug":"okk","name":"\\u0000"}',
            headers={"Authorization": f"Bearer {platform.token}", "Content-Type": "application/json"},
        ),
    )
    await show("404", await http.get("/nothing"))
    await show("405", await http.put(S))
    await show("slash", await admin.get("/knowledge/entries/"))
    await show(
        "ifm",
        await admin.patch(f"/knowledge/entries/{e['id']}", {"title": "x"}, headers={"If-Match": 'W/"1"'}),
    )
    await show("badmethod", await http.request("OPTIONS", S))
    await show("clen", await http.post(S, content=b"{}", headers={**J, "Content-Length": "abc"}))
    await show("path", await admin.get("/knowledge/entries/x%00y"))

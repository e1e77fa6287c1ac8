// Against the real service, whose address and token are in the environment.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KnowledgeClient, ProblemError, paginate } from "../dist/index.js";

const client = new KnowledgeClient();

async function collect(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

test("an entry is stored, changed, found, explained and deleted", async () => {
  const content = "Ships may enter the harbour from six.";
  const entry = await client.createEntry({ content, title: "Harbour hours", tags: ["port"], external_id: "H/1" });
  assert.equal((await client.getEntry(entry.id)).content, content);
  assert.equal((await client.findEntry("H/1"))?.id, entry.id);
  assert.equal(await client.findEntry("H/2"), null);
  const changed = await client.changeEntry(entry.id, { is_verified: true }, { ifVersion: entry.version });
  assert.equal(changed.is_verified, true);
  await assert.rejects(client.changeEntry(entry.id, { title: null }, { ifVersion: entry.version }), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.status, error.type], [412, "/problems/stale-etag"]);
    return true;
  });
  const found = await client.search({ query: "harbour hours", limit: 3 });
  assert.equal(found.results[0]?.id, entry.id);
  await client.giveFeedback(found.metadata.search_id, entry.id, true);
  const why = await client.whyNot("H/1", { query: "harbour", tags: ["none"] });
  assert.deepEqual([why.in_results, why.reasons[0]?.stage], [false, "filter"]);
  assert.deepEqual((await client.related(entry.id)).results, []);
  const batch = await client.searchBatch([{ query: "harbour" }, { query: "x", limit: 51 }]);
  assert.deepEqual(batch.results.map((outcome) => outcome.status), [200, 422]);
  await client.deleteEntry(entry.id);
  await assert.rejects(client.getEntry(entry.id), { status: 404, type: "/problems/entry-not-found" });
});

test("lists and hits are read page by page", async () => {
  const { results } = await client.createEntries(
    [1, 2, 3].map((number) => ({ content: `The quay number ${number}.`, tags: ["quay"] })),
  );
  assert.deepEqual(results.map((result) => result.status), ["created", "created", "created"]);
  const listed = await collect(client.entries({ tag: "quay", limit: 2 }));
  assert.deepEqual(new Set(listed.map((entry) => entry.id)), new Set(results.map((result) => result.id)));
  const hits = await collect(client.hits({ query: "quay", mode: "keyword", limit: 2 }));
  assert.equal(hits.length, 3);
  assert.deepEqual(await collect(client.tags({ prefix: "qu" })), [{ tag: "quay", count: 3 }]);
  assert.deepEqual(await collect(paginate(async () => ({ items: [1], next_cursor: null }))), [1]);
});

test("a file is uploaded, indexed, read and deleted", async () => {
  const upload = { name: "quay.txt", externalId: "files/quay.txt", tags: ["a", "b"], metadata: { year: 2024 } };
  const asset = await client.uploadAsset("The quay has nine berths.", upload);
  assert.deepEqual((await client.waitUntilIndexed(asset.id)).tags, ["a", "b"]);
  assert.equal((await client.getAssetText(asset.id)).trim(), "The quay has nine berths.");
  assert.equal(await (await client.getAssetContent(asset.id)).text(), "The quay has nine berths.");
  assert.equal((await client.changeAsset(asset.id, { title: "Quay" })).title, "Quay");
  assert.deepEqual((await collect(client.assets({ limit: 1 }))).map((each) => each.id), [asset.id]);
  await client.deleteAsset(asset.id);
  await assert.rejects(client.getAsset(asset.id), { status: 404 });
});

test("a source is made equal to a manifest", async () => {
  const accepted = await client.putSource("docs", { items: [{ external_id: "a.md", digest: "v1" }] });
  assert.deepEqual([accepted.added, accepted.missing], [1, 1]);
  const place = { name: "a.md", externalId: "a.md", source: "docs", run: accepted.run };
  await client.waitUntilIndexed((await client.uploadAsset("# A\n\nText.", place)).id);
  assert.equal((await client.getSource("docs")).items, 1);
  assert.deepEqual((await collect(client.sourceItems("docs"))).map((item) => item.external_id), ["a.md"]);
  await client.deleteSource("docs", "delete");
});

test("a refusal has its fields, and a wrong token is refused", async () => {
  await assert.rejects(client.search({ query: "x", limit: 51 }), (error) => {
    assert.equal(error.errors[0].field, "limit");
    assert.match(error.message, /^422 /);
    return true;
  });
  await assert.rejects(new KnowledgeClient({ token: "none" }).search({ query: "x" }), { status: 401 });
  assert.equal((await client.call("GET", "/admin/stats")).entries >= 0, true);
});

test("readers of many items are changed and shown", async () => {
  const joe = new KnowledgeClient({ token: process.env.READER_TOKEN });
  const readers = ["group:sales", "user:ada"];
  const [entry, other] = await Promise.all(
    ["Payroll of May", "Payroll of June"].map((content) => client.createEntry({ content, tags: ["payroll"], readers })),
  );
  assert.deepEqual((await joe.getEntry(entry.id)).readers, readers);
  const change = { where: { tags: ["payroll"] }, readers: { remove: ["group:sales"] } };
  assert.deepEqual(await client.changeAccess({ ...change, dry_run: true }), { matched: 2, changed: 2, refused: [] });
  const pages = await collect(client.accessChanges(change));
  assert.equal(pages.reduce((sum, page) => sum + page.changed, 0), 2);
  await assert.rejects(joe.getEntry(other.id), { status: 404 });
  await assert.rejects(client.readersOf("entries", entry.id), { status: 403 });
  const admin = new KnowledgeClient({ access: "all" });
  assert.deepEqual((await admin.readersOf("entries", entry.id)).readers, ["user:ada"]);
  const found = await admin.subjectAccess({ subject: "joe", group: ["sales", "staff"] });
  assert.deepEqual([found.groups, found.items, found.readable.entries < found.total.entries], [["sales", "staff"], [], true]);
  const items = await collect(admin.subjectItems({ subject: "ada", limit: 1 }));
  assert.deepEqual(items.map((item) => item.id).sort(), [entry.id, other.id].sort());
  const refused = await client.changeAccess({ where: { ids: [entry.id] }, readers: { remove: ["user:ada"] } });
  assert.match(refused.refused[0].reason, /would be empty/);
  await Promise.all([entry, other].map((each) => client.deleteEntry(each.id)));
});

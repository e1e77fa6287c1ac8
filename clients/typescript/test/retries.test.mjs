// Without a service: what is sent again, and when.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KnowledgeClient, ProblemError, ServiceUnreachable, UnexpectedAnswer, readRetryAfter } from "../dist/index.js";

/** A client whose requests get these outcomes in turn; `sent` has the requests. */
function scripted(outcomes, options = {}) {
  const sent = [];
  const fetch = async (url, request) => {
    sent.push({ url, ...request });
    const outcome = outcomes[Math.min(sent.length, outcomes.length) - 1];
    if (outcome instanceof Error) throw outcome;
    return new Response(outcome.body ?? null, { status: outcome.status, headers: outcome.headers ?? {} });
  };
  const client = new KnowledgeClient({ url: "http://kb.example/", token: "t", pause: 1, fetch, ...options });
  return { client, sent };
}

const busy = { status: 429, headers: { "Retry-After": "0.02" } };
const found = { status: 200, body: "{}" };

test("a request that was refused as one too many is sent again as Retry-After says", async () => {
  const { client, sent } = scripted([busy, busy, found]);
  const started = performance.now();
  await client.changeEntry("a b", {}, { ifVersion: 3 });
  assert.ok(performance.now() - started >= 38);
  assert.equal(sent.length, 3);
  assert.equal(sent[0].url, "http://kb.example/knowledge/entries/a%20b");
  assert.deepEqual([sent[0].headers["If-Match"], sent[0].headers.Authorization], ['"3"', "Bearer t"]);
});

test("fetch is not called as a method, which browsers refuse", async (context) => {
  const strict = async function () {
    if (this !== undefined && this !== globalThis) throw new TypeError("Illegal invocation");
    return new Response("{}");
  };
  context.mock.method(globalThis, "fetch", strict);
  for (const options of [{}, { fetch: strict }]) {
    const client = new KnowledgeClient({ url: "http://kb.example", token: "t", attempts: 1, ...options });
    assert.deepEqual(await client.getEntry("a"), {});
  }
});

test("a longer wait than allowed is left to the caller", async () => {
  const { client, sent } = scripted([{ status: 429, headers: { "Retry-After": "3600" } }]);
  await assert.rejects(client.getEntry("a"), { status: 429, retryAfter: 3600 });
  assert.equal(sent.length, 1);
});

test("only what may be repeated is sent again after a failure", async () => {
  const lost = scripted([new TypeError("connection lost"), { status: 503 }, found]);
  await lost.client.createEntry({ content: "x" });
  assert.equal(lost.sent.length, 3);
  const bound = scripted([{ status: 503 }, found]);
  await assert.rejects(bound.client.changeEntry("a", {}, { ifVersion: 1 }), { status: 503 });
  assert.equal(bound.sent.length, 1);
  const away = scripted([new TypeError("refused")]);
  await assert.rejects(away.client.getEntry("a"), ServiceUnreachable);
  assert.equal(away.sent.length, 4);
});

test("a deletion whose answer was lost is done", async () => {
  const { client } = scripted([new TypeError("lost"), { status: 404 }]);
  await client.deleteEntry("a");
  await assert.rejects(scripted([{ status: 404 }]).client.deleteEntry("a"), { status: 404 });
});

test("a token is asked for again after a 401, once", async () => {
  const tokens = ["old", "new", "newer"];
  const { client, sent } = scripted([{ status: 401 }, found], { token: () => tokens.shift() });
  await client.getEntry("a");
  await client.getEntry("a");
  assert.deepEqual(sent.map((request) => request.headers.Authorization), ["Bearer old", "Bearer new", "Bearer new"]);
  const { client: refused } = scripted([{ status: 401 }], { token: () => "t" });
  await assert.rejects(refused.getEntry("a"), { status: 401 });
});

test("an answer of another server is a problem, too", async () => {
  const { client } = scripted([{ status: 302, body: "<html>moved" }]);
  await assert.rejects(client.getEntry("a"), (error) => error instanceof ProblemError && error.detail === "<html>moved");
});

test("a signal ends the wait", async () => {
  const { client } = scripted([{ status: 429, headers: { "Retry-After": "30" } }]);
  await assert.rejects(client.search({ query: "x" }, AbortSignal.timeout(20)), { name: "TimeoutError" });
});

test("Retry-After is read as seconds and as a date", () => {
  assert.equal(readRetryAfter("2"), 2);
  assert.equal(readRetryAfter(null), null);
  assert.equal(readRetryAfter("soon"), null);
  const seconds = readRetryAfter(new Date(Date.now() + 5000).toUTCString());
  assert.ok(seconds > 3 && seconds <= 5);
});

test("an address and a token are required", () => {
  assert.throws(() => new KnowledgeClient({ url: "", token: "t" }), /url: is required/);
});

test("a list in a query is repeated, and the access is a header", async () => {
  const { client, sent } = scripted([found], { access: "all" });
  await client.subjectAccess({ subject: "jane", group: ["a", "b c"] });
  assert.equal(sent[0].url, "http://kb.example/admin/access/subject?subject=jane&group=a&group=b+c");
  assert.equal(sent[0].headers["X-KB-Access"], "all");
  const { client: plain, sent: others } = scripted([found]);
  await plain.getEntry("a");
  assert.equal(others[0].headers["X-KB-Access"], undefined);
  assert.throws(() => scripted([], { access: "some" }), /access: must be all/);
});

test("a token function that fails is asked again by the next request", async () => {
  let asked = 0;
  const token = async () => {
    asked += 1;
    if (asked === 1) throw new Error("the provider is down");
    return "fresh\n";
  };
  const { client, sent } = scripted([found], { token });
  await assert.rejects(client.getEntry("a"), /the provider is down/);
  await client.getEntry("a");
  assert.equal(sent[0].headers.Authorization, "Bearer fresh");
});

test("a body that breaks off is no answer, and one of another server is not that of the service", async () => {
  const broken = () => new ReadableStream({ start: (stream) => stream.error(new TypeError("terminated")) });
  const { client, sent } = scripted([{ status: 200, get body() { return broken(); } }]);
  await assert.rejects(client.getAssetText("a"), ServiceUnreachable);
  assert.equal(sent.length, 4);
  const page = scripted([{ status: 200, body: "<html>" }]);
  await assert.rejects(page.client.getEntry("a"), UnexpectedAnswer);
  const { client: recovers } = scripted([{ status: 200, get body() { return broken(); } }, found]);
  assert.deepEqual(await recovers.getEntry("a"), {});
});

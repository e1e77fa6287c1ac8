// A small program over the client that openapi-typescript generates: it must type-check and work.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined>; exitCode: number };

const client = createClient<paths>({
  baseUrl: process.env.KNOWLEDGE_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.KNOWLEDGE_TOKEN}` },
});

function expect(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

// @ts-expect-error: the generated types contain only existing fields
const misspelt: components["schemas"]["NewEntry"] = { contents: "no" };
expect(misspelt !== undefined, "only the compiler refuses it");

const created = await client.POST("/knowledge/entries", {
  body: {
    content: "Ships may enter the harbour from six.",
    title: "Harbour hours",
    tags: ["port"],
    entry_type: "decision",
    is_verified: true,
    external_id: "H1",
  },
});
expect(created.data !== undefined, `create: ${JSON.stringify(created.error)}`);
const id: string = created.data.id;

const patched = await client.PATCH("/knowledge/entries/{entry_id}", {
  params: { path: { entry_id: id } },
  body: { content: "Ships may enter the harbour from seven." },
});
expect(patched.data?.is_verified === true, `patch: ${JSON.stringify(patched.error)}`);
expect(patched.data.entry_type === "decision" && patched.data.tags[0] === "port", "a patch keeps the other fields");
const again = await client.POST("/knowledge/entries", {
  body: { content: "Ships may enter the harbour from eight.", external_id: "H1" },
});
expect(again.data?.id === id && again.data.is_verified, "an upsert keeps the fields that it omits");

const found = await client.POST("/knowledge/search", { body: { query: "harbour hours", limit: 3 } });
expect(found.data !== undefined, `search: ${JSON.stringify(found.error)}`);
expect(found.data.results[0]?.id === id, "the entry is the best hit");
const score: number = found.data.results[0].score;
expect(score > 0, "it has a score");

const read = await client.GET("/knowledge/entries/{entry_id}", { params: { path: { entry_id: id } } });
expect(read.data?.title === "Harbour hours", "the entry can be read");

const other = await client.POST("/knowledge/entries", { body: { content: "The quay is wet.", tags: ["port"] } });
expect(other.response.status === 201, "a second entry");
const seen: string[] = [];
let cursor: string | undefined;
do {
  const page = await client.GET("/knowledge/entries", {
    params: { query: { limit: 1, tag: "port", ...(cursor === undefined ? {} : { cursor }) } },
  });
  expect(page.data !== undefined, `list: ${JSON.stringify(page.error)}`);
  seen.push(...page.data.items.map((entry) => entry.id));
  cursor = page.data.next_cursor ?? undefined;
} while (cursor !== undefined);
expect(seen.length === 2 && seen[1] === id, "both entries are in the pages");

const asset = await client.POST("/knowledge/assets", {
  body: { file: "the quay has nine berths" },
  bodySerializer: (body) => {
    const form = new FormData();
    form.append("file", new Blob([body.file]), "quay.txt");
    return form;
  },
});
expect(asset.data?.name === "quay.txt", `upload: ${JSON.stringify(asset.error)}`);

const refused = await client.POST("/knowledge/search", { body: { query: "x", limit: 51 } });
expect(refused.response.status === 422, "a limit above the maximum is refused");
const problem: components["schemas"]["Problem"] | undefined = refused.error;
expect(problem?.errors?.[0]?.field === "limit", "the problem names the field");
expect(problem.type === "/problems/invalid-input", "the problem has a type");

const removed = await client.DELETE("/knowledge/entries/{entry_id}", { params: { path: { entry_id: id } } });
expect(removed.response.status === 204, "the entry can be removed");
console.log("ok");

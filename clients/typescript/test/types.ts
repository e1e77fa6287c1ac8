// Compiled, never run: what the types allow.
import { KnowledgeClient, type Entry } from "../src/index.js";

const client = new KnowledgeClient({ url: "http://kb.example", token: async () => "t" });
// @ts-expect-error: the types contain only existing fields
void client.createEntry({ contents: "no" });
// @ts-expect-error: a mode that does not exist
void client.search({ query: "x", mode: "fast" });
// @ts-expect-error: the client follows the cursor itself
void client.entries({ cursor: "x" });
// @ts-expect-error: all, or what the caller may read
void new KnowledgeClient({ access: "some" });
// @ts-expect-error: the client follows the cursor itself
void client.changeAccess({ where: { tags: ["a"] }, readers: { set: null }, cursor: "x" });
const entry: Promise<Entry> = client.getEntry("id");
void entry.then((found) => found.version.toFixed());

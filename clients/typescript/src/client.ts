/** The client: a method for each operation, with the types of the service's own description. */
import { IndexingFailed, IndexingUnfinished } from "./errors.js";
import { Exchange, sleep, type Options } from "./exchange.js";
import { paginate, type Page } from "./pages.js";
import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
type Query<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } } ? NonNullable<Q> : never;
/** The options of a list without its cursor, which the client follows. */
type Listing<P extends keyof paths> = Omit<Query<P>, "cursor">;

export type Entry = Schemas["Entry"];
export type NewEntry = Schemas["NewEntry"];
export type EntryPatch = Schemas["EntryPatch"];
export type Asset = Schemas["Asset"];
export type AssetPatch = Schemas["AssetPatch"];
export type SearchRequest = Schemas["SearchRequest"];
export type SearchResponse = Schemas["SearchResponse"];
export type Hit = Schemas["Hit"];
export type Tag = Schemas["Tag"];
/** A change of who may read and change entries and assets. */
export type AccessChange = Omit<Schemas["AccessPatch"], "cursor">;
/** The answer of one request of such a change. */
export type ChangedAccess = Schemas["ChangedAccess"];
export type ItemReaders = Schemas["ItemReaders"];
export type SubjectAccess = Schemas["SubjectAccess"];

export interface Changing {
  /** Change the item only if it still has this version. */
  ifVersion?: number;
  signal?: AbortSignal;
}

export interface Upload {
  name: string;
  externalId?: string;
  /** The source that the file belongs to, with the `run` of its manifest. */
  source?: string;
  run?: number;
  tags?: readonly string[];
  roles?: readonly string[];
  metadata?: Readonly<Record<string, unknown>>;
  /** Who may read it and its chunks: `group:NAME` and `user:SUB`. */
  readers?: readonly string[];
  /** Who of them may change it. */
  writers?: readonly string[];
  signal?: AbortSignal;
}

export interface Waiting {
  /** Milliseconds to wait at most. Default: 300,000. */
  timeout?: number;
  signal?: AbortSignal;
}

const POLL = 500;

/** Calls the service. Every method throws a KnowledgeError. */
export class KnowledgeClient {
  readonly #exchange: Exchange;

  constructor(options: Options = {}) {
    this.#exchange = new Exchange(options);
  }

  /** Search. Only `query` is required. */
  search(request: SearchRequest, signal?: AbortSignal): Promise<SearchResponse> {
    return this.#exchange.read("POST", "/knowledge/search", { json: request, signal });
  }

  /** All hits of a search, page by page. */
  hits(request: Omit<SearchRequest, "cursor">): AsyncGenerator<Hit, void, undefined> {
    return paginate(async (cursor) => {
      const found = await this.search(cursor === undefined ? request : { ...request, cursor });
      return { items: found.results, next_cursor: found.metadata.next_cursor };
    });
  }

  /** Run 1 to 32 searches in one request; each has its own outcome. */
  searchBatch(searches: SearchRequest[]): Promise<Schemas["SearchBatchResponse"]> {
    return this.#exchange.read("POST", "/knowledge/search/batch", { json: { searches } });
  }

  /** Explain why a search does not find an entry, which its id or its external id names. */
  whyNot(entryId: string, request: SearchRequest): Promise<Schemas["WhyNotResponse"]> {
    return this.#exchange.read("POST", "/knowledge/search/why-not", { json: { entry_id: entryId, request } });
  }

  /** The entries that are related to an entry. */
  related(entryId: string, limit?: number): Promise<Schemas["RelatedResponse"]> {
    return this.#exchange.read("GET", `${entryPath(entryId)}/related`, { query: { limit } });
  }

  /** Say whether a hit of an own search of the last 24 hours was useful. */
  async giveFeedback(searchId: string, entryId: string, relevant: boolean): Promise<void> {
    const json = { search_id: searchId, entry_id: entryId, relevant };
    await this.#exchange.send("POST", "/knowledge/feedback", { json });
  }

  /** Store an entry. The same `external_id`, or else the same content, updates and returns the existing entry. */
  createEntry(entry: NewEntry, signal?: AbortSignal): Promise<Entry> {
    return this.#exchange.read("POST", "/knowledge/entries", { json: entry, signal });
  }

  /** Store 1 to 1,000 entries; each has its own outcome. */
  createEntries(entries: NewEntry[]): Promise<Schemas["BulkResponse"]> {
    return this.#exchange.read("POST", "/knowledge/entries/bulk", { json: { entries } });
  }

  /** One entry. */
  getEntry(id: string): Promise<Entry> {
    return this.#exchange.read("GET", entryPath(id));
  }

  /** The entry with this external id, or null. */
  async findEntry(externalId: string): Promise<Entry | null> {
    const query = { external_id: externalId, limit: 1, include_expired: true, include_quarantined: true };
    return (await this.listEntries(query)).items[0] ?? null;
  }

  /** A page of entries, by default newest first. */
  listEntries(query: Query<"/knowledge/entries"> = {}): Promise<Page<Entry>> {
    return this.#exchange.read("GET", "/knowledge/entries", { query });
  }

  /** All entries, page by page. */
  entries(query: Listing<"/knowledge/entries"> = {}): AsyncGenerator<Entry, void, undefined> {
    return paginate((cursor) => this.listEntries(cursor === undefined ? query : { ...query, cursor }));
  }

  /** Change the given fields of an entry. */
  changeEntry(id: string, patch: EntryPatch, changing: Changing = {}): Promise<Entry> {
    return this.#exchange.read("PATCH", entryPath(id), { json: patch, ...guarded(changing) });
  }

  /** Delete an entry. */
  async deleteEntry(id: string, changing: Changing = {}): Promise<void> {
    await this.#exchange.send("DELETE", entryPath(id), guarded(changing));
  }

  /** All tags with their counts, page by page. */
  tags(query: Listing<"/knowledge/tags"> = {}): AsyncGenerator<Tag, void, undefined> {
    return this.#walk<Tag>("/knowledge/tags", query);
  }

  /** Upload a file; the service indexes it in the background: see `waitUntilIndexed`. */
  uploadAsset(file: Blob | Uint8Array<ArrayBuffer> | string, upload: Upload): Promise<Asset> {
    const form = new FormData();
    form.append("file", file instanceof Blob ? file : new Blob([file]), upload.name);
    for (const tag of upload.tags ?? []) form.append("tags", tag);
    for (const name of ["roles", "readers", "writers"] as const) {
      for (const each of upload[name] ?? []) form.append(name, each);
    }
    const texts = { external_id: upload.externalId, source: upload.source, run: upload.run?.toString() };
    for (const [name, text] of Object.entries(texts)) if (text !== undefined) form.append(name, text);
    if (upload.metadata !== undefined) form.append("metadata", JSON.stringify(upload.metadata));
    return this.#exchange.read("POST", "/knowledge/assets", { form, signal: upload.signal });
  }

  /** The asset once it is indexed. Throws IndexingFailed and IndexingUnfinished. */
  async waitUntilIndexed(id: string, waiting: Waiting = {}): Promise<Asset> {
    const end = Date.now() + (waiting.timeout ?? 300_000);
    for (;;) {
      const asset = await this.getAsset(id);
      if (asset.status === "indexed") return asset;
      if (asset.status === "failed") throw new IndexingFailed(`${asset.name}: ${asset.error}`);
      if (Date.now() + POLL > end) throw new IndexingUnfinished(`${asset.name}: ${asset.status}`);
      await sleep(POLL, waiting.signal);
    }
  }

  /** One asset. */
  getAsset(id: string): Promise<Asset> {
    return this.#exchange.read("GET", assetPath(id));
  }

  /** All assets, page by page. */
  assets(query: Listing<"/knowledge/assets"> = {}): AsyncGenerator<Asset, void, undefined> {
    return this.#walk<Asset>("/knowledge/assets", query);
  }

  /** The extracted text of an asset. */
  async getAssetText(id: string): Promise<string> {
    return (await this.#exchange.send("GET", `${assetPath(id)}/text`)).text();
  }

  /** The original bytes of an asset. */
  async getAssetContent(id: string): Promise<Blob> {
    return (await this.#exchange.send("GET", `${assetPath(id)}/content`)).blob();
  }

  /** Change the given fields of an asset, and those that its chunks inherit. */
  changeAsset(id: string, patch: AssetPatch, changing: Changing = {}): Promise<Asset> {
    return this.#exchange.read("PATCH", assetPath(id), { json: patch, ...guarded(changing) });
  }

  /** Ingest a failed asset again. */
  retryAsset(id: string): Promise<Asset> {
    return this.#exchange.read("POST", `${assetPath(id)}/retry`, { repeatable: false });
  }

  /** Delete an asset with its chunks. */
  async deleteAsset(id: string): Promise<void> {
    await this.#exchange.send("DELETE", assetPath(id));
  }

  /** Make a source have what a manifest lists. */
  putSource(name: string, manifest: Schemas["ManifestBody"]): Promise<Schemas["Accepted"]> {
    return this.#exchange.read("PUT", sourcePath(name), { json: manifest });
  }

  /** A source with the number of its items in each state. */
  getSource(name: string): Promise<Schemas["SourceStatus"]> {
    return this.#exchange.read("GET", sourcePath(name));
  }

  /** All items of a source, page by page. */
  sourceItems(
    name: string,
    query: Listing<"/knowledge/sources/{name}/items"> = {},
  ): AsyncGenerator<Schemas["SourceItem"], void, undefined> {
    return this.#walk<Schemas["SourceItem"]>(`${sourcePath(name)}/items`, query);
  }

  /** Delete a source; its assets stay, or are deleted with it. */
  async deleteSource(name: string, assets: "keep" | "delete" = "keep"): Promise<void> {
    await this.#exchange.send("DELETE", sourcePath(name), { query: { assets } });
  }

  /** Change who may read and change all entries and assets that pass `where`; the sums of all requests, of 200 items each. */
  async changeAccess(change: AccessChange): Promise<Omit<ChangedAccess, "next_cursor">> {
    const sums = { matched: 0, changed: 0, refused: [] as ChangedAccess["refused"] };
    for await (const page of this.accessChanges(change)) {
      sums.matched += page.matched;
      sums.changed += page.changed;
      sums.refused.push(...page.refused);
    }
    return sums;
  }

  /** The same change, with the answer of each request. */
  accessChanges(change: AccessChange): AsyncGenerator<ChangedAccess, void, undefined> {
    return paginate(async (cursor) => {
      const json = { ...change, cursor: cursor ?? null };
      const page = await this.#exchange.read<ChangedAccess>("PATCH", "/knowledge/access", { json });
      return { items: [page], next_cursor: page.next_cursor };
    });
  }

  /** Who may read and change an entry, an asset or a source, which its name identifies; for admins of the tenant. */
  readersOf(kind: "entries" | "assets" | "sources", key: string): Promise<ItemReaders> {
    return this.#exchange.read("GET", `/admin/access/${kind}/${encodeURIComponent(key)}`);
  }

  /** What a person may read, with a page of the items that not all readers may read; for admins of the tenant. */
  subjectAccess(query: Query<"/admin/access/subject">): Promise<SubjectAccess> {
    return this.#exchange.read("GET", "/admin/access/subject", { query });
  }

  /** All items that a person may read and not all readers may, page by page. */
  subjectItems(query: Listing<"/admin/access/subject">): AsyncGenerator<Schemas["ItemAccess"], void, undefined> {
    return paginate((cursor) => this.subjectAccess(cursor === undefined ? query : { ...query, cursor }));
  }

  /** What the tenant used by day, by default of the last 30 days; for its admins. */
  async usage(query: Query<"/admin/usage"> = {}): Promise<Schemas["DayUsage"][]> {
    return (await this.#exchange.read<Schemas["Usage"]>("GET", "/admin/usage", { query })).items;
  }

  /** Any other operation: the answer as JSON, with the same token, retries and errors. */
  call<T>(method: string, path: string, options: Parameters<Exchange["read"]>[2] = {}): Promise<T> {
    return this.#exchange.read<T>(method, path, options);
  }

  #walk<T>(path: string, query: object): AsyncGenerator<T, void, undefined> {
    return paginate((cursor) => this.#exchange.read<Page<T>>("GET", path, { query: { ...query, cursor } }));
  }
}

/** A change that must not be repeated after an answer was lost, if it is bound to a version. */
function guarded(changing: Changing) {
  return { ifVersion: changing.ifVersion, signal: changing.signal, repeatable: changing.ifVersion === undefined };
}

const entryPath = (id: string) => `/knowledge/entries/${encodeURIComponent(id)}`;
const assetPath = (id: string) => `/knowledge/assets/${encodeURIComponent(id)}`;
const sourcePath = (name: string) => `/knowledge/sources/${encodeURIComponent(name)}`;

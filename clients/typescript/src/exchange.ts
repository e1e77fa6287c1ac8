/** Requests with a token, a timeout and retries. */
import { KnowledgeError, ProblemError, ServiceUnreachable, UnexpectedAnswer, readProblem } from "./errors.js";

/** A token, or a function that returns one; it is called at the first request, and again after a 401. */
export type TokenSource = string | (() => string | Promise<string>);

export interface Options {
  /** The address of the service. Default: the environment variable KB_URL. */
  url?: string;
  /** Default: the environment variable KB_TOKEN. */
  token?: TokenSource;
  /** Lets an admin of a tenant see and change all of it, which the audit trail records. Default: the variable KB_ACCESS. */
  access?: "all";
  /** Attempts of a request that may be repeated. Default: 4. */
  attempts?: number;
  /** Milliseconds before the second attempt, unless Retry-After says otherwise; then twice as many. Default: 500. */
  pause?: number;
  /** The longest wait, in milliseconds, that Retry-After may ask for. Default: 60,000. */
  longestPause?: number;
  /** Milliseconds until an attempt without an answer is given up. Default: 30,000. */
  timeout?: number;
  /** Replaces the global `fetch`, for proxies, certificates and tests. */
  fetch?: typeof fetch;
}

export interface Call {
  query?: Readonly<Record<string, unknown>> | undefined;
  json?: unknown;
  form?: FormData;
  ifVersion?: number | undefined;
  /** Whether sending it twice has the same effect as sending it once. Default: true. */
  repeatable?: boolean;
  signal?: AbortSignal | undefined;
}

const PASSING = [502, 503, 504];
const EMPTY = [204, 205, 304];

/** Sends requests to one service. */
export class Exchange {
  readonly #url: string;
  readonly #token: TokenSource;
  readonly #access: string | undefined;
  readonly #options: Required<Omit<Options, "url" | "token" | "access" | "fetch">>;
  readonly #fetch: typeof fetch;
  #current: Promise<string> | undefined;

  constructor(options: Options) {
    const url = options.url ?? variable("KB_URL");
    const token = options.token ?? variable("KB_TOKEN");
    if (!url) throw new KnowledgeError("url: is required, unless KB_URL is set");
    if (!token) throw new KnowledgeError("token: is required, unless KB_TOKEN is set");
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#access = options.access ?? variable("KB_ACCESS");
    if (this.#access !== undefined && this.#access !== "all") {
      throw new KnowledgeError("access: must be all, and KB_ACCESS all or not set");
    }
    const { attempts = 4, pause = 500, longestPause = 60_000, timeout = 30_000 } = options;
    this.#options = { attempts, pause, longestPause, timeout };
    const given = options.fetch ?? fetch;
    // Browsers refuse a call of their `fetch` as a method of another object.
    this.#fetch = (input, init) => given(input, init);
  }

  /** The answer as JSON; undefined for one without a body. */
  async read<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const response = await this.send(method, path, call);
    const text = await response.text();
    try {
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      throw new UnexpectedAnswer(`${this.#url} answered something other than JSON; is it the service?`, { cause });
    }
  }

  /** The answer. Throws ProblemError and ServiceUnreachable. */
  async send(method: string, path: string, call: Call = {}): Promise<Response> {
    const repeatable = call.repeatable ?? true;
    let unsure = false;
    let renewed = false;
    for (let attempt = 1; ; ) {
      const outcome = await this.#attempt(method, path, call);
      if (outcome instanceof Response) {
        if (outcome.ok) return outcome;
        // An earlier attempt without an answer may have deleted it.
        if (unsure && method === "DELETE" && outcome.status === 404) return new Response(null, { status: 204 });
        if (outcome.status === 401 && typeof this.#token === "function" && !renewed) {
          renewed = true;
          this.#current = undefined;
          continue;
        }
      }
      const error = outcome instanceof Response ? await readProblem(outcome) : outcome;
      const passing =
        error instanceof ProblemError
          ? error.status === 429 || (repeatable && PASSING.includes(error.status))
          : repeatable;
      const asked = error instanceof ProblemError && error.retryAfter !== null ? error.retryAfter * 1000 : null;
      const wait = asked ?? this.#options.pause * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
      if (!passing || attempt >= this.#options.attempts || wait > this.#options.longestPause) throw error;
      unsure ||= !(error instanceof ProblemError) || error.status !== 429;
      attempt += 1;
      await sleep(wait, call.signal);
    }
  }

  async #findToken(): Promise<string> {
    const token = this.#token;
    this.#current ??= typeof token === "string" ? Promise.resolve(token) : (async () => await token())();
    let found: string;
    try {
      found = (await this.#current).trim();
    } catch (error) {
      this.#current = undefined; // the next request asks again
      throw error;
    }
    if (/[^\x21-\x7e]/.test(found)) throw new KnowledgeError("token: must be ASCII characters without blanks");
    return found;
  }

  async #attempt(method: string, path: string, call: Call): Promise<Response | ServiceUnreachable> {
    const headers: Record<string, string> = { Authorization: `Bearer ${await this.#findToken()}` };
    if (this.#access !== undefined) headers["X-KB-Access"] = this.#access;
    if (call.json !== undefined) headers["Content-Type"] = "application/json";
    if (call.ifVersion !== undefined) headers["If-Match"] = `"${call.ifVersion}"`;
    const late = AbortSignal.timeout(this.#options.timeout);
    try {
      const answer = await this.#fetch(this.#url + path + search(call.query), {
        method,
        headers,
        body: call.form ?? (call.json === undefined ? null : JSON.stringify(call.json)),
        redirect: "manual",
        signal: call.signal === undefined ? late : AbortSignal.any([late, call.signal]),
      });
      if (answer.type === "opaqueredirect") return answer;
      // A body that ends early is a failure, too.
      const body = await answer.blob();
      const { status, statusText, headers: answered } = answer;
      return new Response(EMPTY.includes(status) ? null : body, { status, statusText, headers: answered });
    } catch (cause) {
      if (call.signal?.aborted) throw cause;
      return new ServiceUnreachable(`no answer from ${this.#url}: ${String(cause)}`, { cause });
    }
  }
}

function search(query: Call["query"]): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) given.append(name, String(each));
    }
  }
  const text = given.toString();
  return text === "" ? "" : `?${text}`;
}

/** Wait; the signal ends the wait with its reason. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A variable of the environment, where there is one. */
function variable(name: string): string | undefined {
  const host = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return host.process?.env?.[name]?.trim() || undefined;
}

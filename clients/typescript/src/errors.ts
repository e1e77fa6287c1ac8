/** Errors: the problems of the service, and failures on the way to it. */
import type { components } from "./schema.js";

export type Problem = components["schemas"]["Problem"];
export type FieldProblem = components["schemas"]["FieldProblem"];

/** Every error that this client throws itself. */
export class KnowledgeError extends Error {
  override name = "KnowledgeError";
}

/** No answer arrived: no connection, a broken connection, or a timeout. The cause is the error of `fetch`. */
export class ServiceUnreachable extends KnowledgeError {
  override name = "ServiceUnreachable";
}

/** The answer is not one of the service: something else answers at its address. The cause is the error of the parser. */
export class UnexpectedAnswer extends KnowledgeError {
  override name = "UnexpectedAnswer";
}

/** The data was not searchable within the time that the caller waits; the service continues. */
export class IndexingUnfinished extends KnowledgeError {
  override name = "IndexingUnfinished";
}

/** An uploaded file could not be indexed; the message has the reason. */
export class IndexingFailed extends KnowledgeError {
  override name = "IndexingFailed";
}

/** The service refused the request, or failed: a problem as in RFC 9457. */
export class ProblemError extends KnowledgeError {
  override name = "ProblemError";
  readonly status: number;
  /** The kind of problem, such as `/problems/entry-exists`; the service has a page about each. */
  readonly type: string;
  readonly detail: string;
  /** For 422: each invalid field. */
  readonly errors: readonly FieldProblem[];
  readonly requestId: string | null;
  /** Seconds after which the service asks for a retry. */
  readonly retryAfter: number | null;
  readonly problem: Problem;

  constructor(problem: Problem, retryAfter: number | null) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.problem = problem;
    this.status = problem.status;
    this.type = problem.type;
    this.detail = problem.detail;
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id ?? null;
    this.retryAfter = retryAfter;
  }
}

/** The error for an answer, also when a server between the client and the service gave it. */
export async function readProblem(response: Response): Promise<ProblemError> {
  const text = await response.text();
  let problem = { title: response.statusText, status: response.status, detail: text.slice(0, 200).trim() } as Problem;
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && "detail" in body && "status" in body) problem = body as Problem;
  } catch {
    // Not JSON: another server's page.
  }
  return new ProblemError(problem, readRetryAfter(response.headers.get("retry-after")));
}

/** Seconds that a Retry-After header names, as a number or as a date; null if it is missing or invalid. */
export function readRetryAfter(value: string | null): number | null {
  if (value === null || value.trim() === "") return null;
  const seconds = Number(value);
  const found = Number.isFinite(seconds) ? seconds : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(found) ? Math.max(0, found) : null;
}

/** Calls the API for the page: renews tokens, waits out refusals, and asks for a second factor when one is due. */
import { fetchFresh, takeBegun } from "./begun.ts";
import { cell } from "./cell.ts";
import { holderOf, token } from "./token.ts";

/** An answer that is not a success. `code` is the relay's; `NETWORK` when there was no answer. */
export class ApiRefusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly { readonly path: string; readonly message: string }[];
  readonly retryAfter: number | undefined;
  readonly requestId: string | undefined;
  constructor(status: number, problem: Problem) {
    super(problem.detail ?? problem.title ?? "The relay did not answer as expected.");
    this.status = status;
    this.code = problem.code ?? "UNKNOWN";
    this.errors = problem.errors ?? [];
    this.retryAfter = problem.retryAfter;
    this.requestId = problem.instance;
  }
}
interface Problem {
  readonly code?: string;
  readonly title?: string;
  readonly detail?: string;
  readonly instance?: string;
  readonly retryAfter?: number;
  readonly errors?: ApiRefusal["errors"];
}

export interface ApiAnswer<T> {
  readonly data: T;
  readonly meta: {
    readonly timestamp: string;
    readonly nextCursor?: string;
    readonly searchedTo?: string;
    readonly warnings?: readonly string[];
  };
  /** The unchanged text of the answer. */
  readonly text: string;
}

interface AskOptions {
  readonly body?: unknown;
  /** The body as JSON text, in place of `body`. */
  readonly text?: string;
  readonly signal?: AbortSignal;
  /** Ends the wait after a refusal. A request that was sent is not taken back: nobody would know what came of it. */
  readonly wanted?: AbortSignal;
}

/** Calls from the API client into the rest of the page: set by the session. */
export const asked = {
  /** Renews the token. Resolves to false when the session has ended. */
  renew: (): Promise<boolean> => Promise.resolve(false),
  /** Asks for a second factor. Resolves to false when it was not given. */
  stepUp: (): Promise<boolean> => Promise.resolve(false),
  /** Called when the session has ended. */
  ended: (): void => undefined,
  /** Called when something was not read: there was no answer, or the relay could not. */
  unread: (): void => undefined,
};

/** The refusal that is being waited out. */
export const waiting = cell<{ readonly code: string; readonly until: number } | undefined>(undefined);

/** How many requests of this view the limits count. */
export const spent = { count: 0 };
/** Most requests that a view may cost. */
export const MOST_REQUESTS = 4;

const PATIENCE = 4;

/** @throws AbortError when `signal` aborts */
export const wait = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    });
  });

/** @throws AbortError when that is what it is, else ApiRefusal NETWORK: no answer came, or not all of it */
function unanswered(error: unknown): never {
  if ((error as Error).name === "AbortError") throw error;
  asked.unread();
  throw new ApiRefusal(0, {
    code: "NETWORK",
    detail: "The relay cannot be reached. Check that it runs, then try again.",
  });
}

/** Sends one request, unless it was begun while the page was loading. @throws ApiRefusal NETWORK */
export async function send(method: string, path: string, init: RequestInit): Promise<Response> {
  spent.count++;
  const answer = takeBegun(method, path, init.signal) ?? fetchFresh(method, path, init);
  const response = await answer.catch(unanswered);
  if (method === "GET" && response.status >= 500) asked.unread();
  return response;
}

export async function refusalOf(response: Response): Promise<ApiRefusal> {
  const problem = (await response.json().catch(() => ({}))) as Problem;
  const header = Number(response.headers.get("retry-after"));
  return new ApiRefusal(response.status, { retryAfter: header > 0 ? header : undefined, ...problem });
}

/** Waits as long as the answer said, a little more with each try, so that many pages do not come back at once. */
export async function waitOut(refusal: ApiRefusal, tries: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const seconds = refusal.retryAfter ?? 1;
  const ms = seconds * 1_000 + 50 + Math.random() * 250 * 2 ** tries;
  const mine = { code: refusal.code, until: relayNow() + ms };
  waiting.set(mine);
  try {
    await wait(ms, signal);
  } finally {
    if (waiting.now === mine) waiting.set(undefined);
  }
}

/** @throws ApiRefusal; AbortError when `signal` aborts */
export async function ask<T>(
  method: string,
  path: string,
  { body, text = body === undefined ? undefined : JSON.stringify(body), signal, wanted = signal }: AskOptions = {},
): Promise<ApiAnswer<T>> {
  const who = holderOf(token.now);
  let renewed = false;
  for (let tries = 0; ; tries++) {
    if (token.now !== undefined && relayNow() > token.now.renewAt && !renewed) {
      renewed = true;
      await asked.renew();
    }
    const { now: used } = token;
    // A request that one person has begun neither goes on as another, nor once they have left.
    if (used === undefined || holderOf(used) !== who)
      throw new ApiRefusal(401, { code: "UNAUTHENTICATED", detail: "Log in again to do this." });
    const headers: Record<string, string> = { authorization: `Bearer ${used.text}` };
    if (text !== undefined) headers["content-type"] = "application/json";
    const response = await send(method, path, { headers, body: text, signal, credentials: "omit" });
    if (response.ok) return read(response);
    const refusal = await refusalOf(response);
    if (refusal.status === 429 && tries < PATIENCE) {
      await waitOut(refusal, tries, wanted);
      continue;
    }
    // Nobody is asked for what they have left; and who has just answered for another request is not asked again.
    if (refusal.code === "STEP_UP_REQUIRED" && tries < PATIENCE && wanted?.aborted !== true)
      if (token.now !== used || (await asked.stepUp())) continue;
    if (refusal.code === "UNAUTHENTICATED") {
      if (!renewed && (token.now !== used || (await asked.renew()))) {
        renewed = true;
        continue;
      }
      if (token.now === used) asked.ended();
    }
    throw refusal;
  }
}

/** Reads an answer that is a success; it may be empty. @throws ApiRefusal NETWORK */
export async function read<T>(response: Response): Promise<ApiAnswer<T>> {
  const text = await response.text().catch(unanswered);
  if (text === "") return { data: undefined as T, meta: { timestamp: "" }, text };
  const { data, meta } = JSON.parse(text) as { data: T; meta: ApiAnswer<T>["meta"] };
  setRelayTime(meta.timestamp);
  return { data, meta, text };
}

/** `path("/api-keys/{}/webhooks", id)`: each part escaped. Empty query values are left out. */
export function path(
  shape: string,
  parts: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  let i = 0;
  return withQuery(
    shape.replaceAll("{}", () => encodeURIComponent(parts[i++] ?? "")),
    query,
  );
}

/** Appends a query to an address. Empty values are left out. */
export function withQuery(address: string, query: Readonly<Record<string, string | undefined>>): string {
  const asks = new URLSearchParams(Object.entries(query).filter((one): one is [string, string] => !!one[1]));
  return asks.size > 0 ? `${address}?${asks}` : address;
}

let aheadMs = 0;
/** An answer takes a while to arrive, which is no difference between the clocks. */
const SAME_MS = 60_000;

/** Returns epoch ms. */
export const relayNow = (): number => Date.now() + aheadMs;

/** @param timestamp when the relay has answered just now */
function setRelayTime(timestamp: string): void {
  const ahead = Date.parse(timestamp) - Date.now();
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < SAME_MS ? 0 : ahead;
}

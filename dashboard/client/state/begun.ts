/** Sends requests, some of them while the page is still loading: the first view takes those over. */

interface Begun {
  readonly answer: Promise<Response>;
  readonly abort: AbortController;
}
declare global {
  interface Window {
    /** Filled by the script in the head, which knows no other module of the page. */
    relayBegun?: Map<string, Begun>;
  }
}

const all = (window.relayBegun ??= new Map());

/** Sends one request. The address is relative to that of the page: both may stand under a prefix that a proxy takes away. */
export const fetchFresh = (method: string, path: string, init: RequestInit): Promise<Response> =>
  fetch(path.slice(1), { method, cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", ...init });

/**
 * Sends a request early. Its answer goes to the view that asks `takeBegun` for the same method and path.
 * @param query added to the path that is sent; the view does not name it
 */
export function beginRequest(method: string, path: string, init: RequestInit, query = ""): Promise<Response> {
  const abort = new AbortController();
  const answer = fetchFresh(method, path + query, { ...init, signal: abort.signal }).then(whole);
  all.set(`${method} ${path}`, { answer, abort });
  return answer;
}

/** Reads the body of what is no stream, so that the view has it in the turn in which it is drawn. */
async function whole(answer: Response): Promise<Response> {
  const { status, headers } = answer;
  if (headers.get("content-type")?.startsWith("text/event-stream")) return answer;
  return new Response(await answer.text(), { status, headers });
}

/** Returns the answer to a request that was sent early, once; `undefined` when there is none. */
export function takeBegun(
  method: string,
  path: string,
  signal: AbortSignal | null | undefined,
): Promise<Response> | undefined {
  const name = `${method} ${path}`;
  const begun = all.get(name);
  if (begun === undefined) return undefined;
  all.delete(name);
  const end = (): void => begun.abort.abort();
  if (signal?.aborted) end();
  signal?.addEventListener("abort", end);
  return begun.answer;
}

/** Ends the requests whose answers no view has taken: they are no longer new. */
export function dropBegun(): void {
  for (const { abort } of all.values()) abort.abort();
  all.clear();
}

/** Receives what happens on a key: server-sent events over `fetch`, because they need the token in a header. */
import { asked, MOST_REQUESTS, refusalOf, relayNow, send, spent, wait, waitOut } from "./api.ts";
import { cell } from "./cell.ts";
import { token } from "./token.ts";

interface LiveEvent {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  readonly createdAt: string;
  readonly acceptedAt: string;
  readonly deliveries: number;
}
interface LiveAttempt {
  readonly deliveryId: string;
  readonly eventId: string;
  readonly subscriptionId: string;
  readonly cycle: number;
  readonly number: number;
  readonly status: "pending" | "delivered" | "failed" | "cancelled";
}
export type LiveMessage =
  | { readonly event: "event"; readonly data: LiveEvent }
  | { readonly event: "attempt"; readonly data: LiveAttempt }
  | { readonly event: "subscription"; readonly data: { readonly id: string } }
  /** The stream has begun again: something may have been missed. */
  | { readonly event: "again" };

/** `lost` and `offline`: what the page shows may be older than what the relay has. */
export const liveState = cell<"off" | "connecting" | "on" | "lost" | "offline">("off");
const listeners = new Set<(message: LiveMessage) => void>();
let current: { readonly keyId: string; readonly abort: AbortController } | undefined;
/** The present connection, or the wait for the next. Aborting it ends that one only. */
let link = new AbortController();
/** The relay writes every 15 s: a stream that is silent for so long has lost its other end. */
const SILENCE_MS = 40_000;
/** A stream that lasted so long is no sign of trouble when it ends. */
const STEADY_MS = 10_000;
/** The first reading of a view waits no longer for the stream. */
const MOST_WAIT_MS = 1_000;

/** Resolves when the stream of the present key has been tried for the first time. */
let opening = Promise.withResolvers<void>();
/** The key that the page shows, followed or not. */
let shown: string | undefined;
/** Readings that wait for the stream. */
let readings = 0;
/** Something of the key was read without a stream: what happened since then is in neither. */
let unheard = false;

/** Ends the connection, so that the next one shows whether the relay is there, and has the views read again. */
function lose(): void {
  if (liveState.now === "on" || liveState.now === "connecting") link.abort();
}
asked.unread = lose;
addEventListener("offline", lose);
addEventListener("online", () => {
  if (liveState.now === "offline") link.abort();
});

/** Calls `tell` for each message until the returned function is called. */
export function listen(tell: (message: LiveMessage) => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

/**
 * Follows a key from now on; `undefined` for none.
 * @param late after a while: until then a view that has used up its requests is not followed
 */
export function follow(keyId: string | undefined, late = false): void {
  if (keyId !== shown) unheard = false;
  shown = keyId;
  if (current?.keyId === keyId) return;
  if (keyId !== undefined && !late && spent.count + readings >= MOST_REQUESTS) return;
  current?.abort.abort();
  opening.resolve();
  current = keyId === undefined ? undefined : { keyId, abort: new AbortController() };
  if (current === undefined) return liveState.set("off");
  opening = Promise.withResolvers();
  void run(current.keyId, current.abort.signal);
}

/**
 * Resolves when the stream of the key has been opened: what is read from then on, and what it tells, leave nothing out. When
 * there is none, or it takes long to open, the views read again once it is open.
 */
export async function opened(): Promise<void> {
  readings++;
  // A view begins before the frame of the page, which follows the key in the same turn.
  await Promise.resolve();
  readings--;
  if (current !== undefined) {
    const wait = new AbortController();
    await Promise.race([opening.promise, pause(MOST_WAIT_MS, wait.signal)]);
    wait.abort();
  }
  unheard ||= liveState.now !== "on";
}

async function run(keyId: string, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted;) {
    if (failures === 0) liveState.set("connecting");
    let beganAt = Infinity;
    let complete = false;
    try {
      if (token.now === undefined) break;
      const either = nextLink(signal);
      const headers = { authorization: `Bearer ${token.now.text}`, accept: "text/event-stream" };
      const path = `/api-keys/${encodeURIComponent(keyId)}/stream`;
      const response = await orSilent(send("GET", path, { headers, signal: either, credentials: "omit" }));
      if (response.ok && response.body !== null) {
        beganAt = Date.now();
        liveState.set("on");
        opening.resolve();
        if (failures > 0 || unheard) publish({ event: "again" });
        unheard = false;
        await read(response.body);
        // As it does with its token: nothing is wrong yet.
        complete = Date.now() - beganAt > STEADY_MS;
      } else {
        const refusal = await refusalOf(response);
        if (refusal.status === 429) await waitOut(refusal, failures, signal);
        else if (refusal.status === 404 || refusal.status === 403) break;
        else if (refusal.status === 401 && !(await asked.renew())) {
          // The session, or the portal link, has ended before its time.
          asked.ended();
          break;
        }
      }
    } catch {
      // Aborted, or the network failed: the loop tries again.
    }
    if (signal.aborted) return;
    opening.resolve();
    failures = Date.now() - beganAt > STEADY_MS ? 1 : failures + 1;
    liveState.set(!navigator.onLine ? "offline" : complete ? "connecting" : "lost");
    await pause(Math.min(30_000, 500 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2), nextLink(signal));
    if (!signal.aborted && !(await renewed())) break;
  }
  if (current?.abort.signal === signal) {
    current = undefined;
    opening.resolve();
    liveState.set("off");
  }
}

function nextLink(signal: AbortSignal): AbortSignal {
  link = new AbortController();
  return AbortSignal.any([signal, link.signal]);
}

/** Ends the present connection when nothing comes of it for longer than the relay is ever silent. */
function orSilent<T>(coming: Promise<T>): Promise<T> {
  const awaited = link;
  const silence = setTimeout(() => awaited.abort(), SILENCE_MS);
  return coming.finally(() => clearTimeout(silence));
}

/** A stream ends with its token. Returns false when the session has ended too. */
async function renewed(): Promise<boolean> {
  if (token.now !== undefined && relayNow() < token.now.renewAt) return true;
  try {
    if (await asked.renew()) return true;
  } catch {
    return true;
  }
  if (token.now !== undefined && token.now.expiresAt > relayNow()) return true;
  asked.ended();
  return false;
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => wait(ms, signal).catch(() => undefined);

async function read(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await orSilent(reader.read());
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split("\n");
      const event = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (event === undefined || data === undefined) continue;
      publish({ event, data: JSON.parse(data) as unknown } as LiveMessage);
    }
  }
}

/** Tells the views of a message. */
export function publish(message: LiveMessage): void {
  for (const one of [...listeners]) one(message);
}

token.watch((now) => {
  if (now === undefined) follow(undefined);
});

/** Puts the wall around each kind of plug-in: which calls have which deadline, and what a failed one means. */
import { StorageError } from "../../model/errors.ts";
import { Problem } from "../../model/problem.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Observer } from "../../ports/observer.ts";
import type { Routes } from "../../ports/plugin.ts";
import type { Route } from "../../ports/route.ts";
import type { Accept, Source } from "../../ports/source.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport, TransportRequest } from "../../ports/transport.ts";
import { bound } from "./bound.ts";
import { thrownText } from "./thrown.ts";
import { checkPort, type How, type Wall } from "./wall.ts";

/** Longest waits, ms: for the judgement of a token, of a URL, for a route, and for what probes and metrics ask of a storage. */
const AUTH_MS = 10_000;
const PROBLEMS_MS = 5_000;
const ROUTE_MS = 120_000;
const SOON_MS = 2_000;
/** Time that a question to the other nodes gets beyond its time: a storage that does not answer says so by itself meanwhile. */
const ASK_SPARE_MS = 10_000;
const STOP_MS = 5_000;

/** Methods that a storage must have. */
const STORAGE =
  "getItem getMany commit range watch status dispose queue.add queue.claim queue.wake queue.extend queue.settle " +
  "queue.withdraw queue.release queue.pause queue.hold queue.cancel queue.sweep queue.depth queue.pending " +
  "counters.take counters.giveBack";
const UNCERTAIN: ReadonlySet<string> = new Set(["commit", "queue.settle", "queue.withdraw"]);

const quiet: How = { failed: () => undefined };
const unwrapped = (next: unknown): How => ({ failed: () => next });
const soon: How = { ms: SOON_MS };
const NO_JUDGEMENT = "The transport of this URL cannot check it now. Try again later.";

/**
 * How calls are made that are not made as all others are; `"free"`: without the wall. Those take as long as they take: one
 * waits for work, one reads all lines, one ends everything.
 */
const HOWS: Readonly<Record<string, How | "free" | ((...args: never[]) => How)>> = {
  ...{ dispose: "free", "queue.wake": "free", "queue.sweep": "free" },
  ...{ status: soon, room: soon, "queue.depth": soon, "queue.add": quiet, forget: quiet },
  "nodes.ask": (_: string, { mostMs }: { mostMs: number }): How => ({ ms: mostMs + ASK_SPARE_MS, late: () => false }),
  // A plug-in that fails to say whether it is ready is not.
  ...{ readiness: { failed: (error) => `its readiness fails: ${thrownText(error)}` }, ready: { failed: () => false } },
  figures: { failed: () => [] },
  problems: { ms: PROBLEMS_MS, failed: () => Promise.reject(new Problem("INTERNAL_ERROR", NO_JUDGEMENT)) },
  send: ({ timeoutMs: ms }: TransportRequest, signal: AbortSignal): How => ({
    ...{ ms, signal },
    late: () => ({ kind: "error", error: "timeout", detail: `the transport gave no reply within ${ms} ms` }),
  }),
  authenticate: { ms: AUTH_MS, failed: () => ({ refused: "the auth plug-in failed" }) },
  ...{ firstRun: { ms: AUTH_MS }, standing: { ms: AUTH_MS } },
  ...{ accepted: quiet, attempted: quiet, refused: quiet, wrapAccept: unwrapped, wrapSend: unwrapped },
};

/** @param of what stands before the names of the methods: `queue.` */
function surround<T extends object>(port: T, { call, plugin }: Wall, over: Partial<T> = {}, of = ""): T {
  return bound(port, over, (method, args, work) => {
    const name = of + method;
    const how = HOWS[name] ?? {};
    if (how === "free") return work();
    const failed = (cause: Error): never => {
      if (plugin.kind !== "storage") throw cause;
      const text = `${name} of the storage plug-in ${plugin.name}: ${thrownText(cause)}`;
      throw new StorageError(UNCERTAIN.has(name) ? "uncertain" : "unavailable", text, { cause });
    };
    return call(name, work, { failed, ...(typeof how === "function" ? how(...(args as never[])) : how) });
  });
}

/** @throws StartError 78 when it is no storage */
export function walledStorage(storage: Storage, wall: Wall): Storage {
  if (wall.own) return storage;
  checkPort(storage, wall.plugin, storage?.nodes === undefined ? STORAGE : `${STORAGE} nodes.ask nodes.answer`);
  const { queue, counters, nodes } = storage;
  return surround<Storage>(storage, wall, {
    queue: surround(queue, wall, {}, "queue."),
    counters: surround(counters, wall, {}, "counters."),
    ...(nodes && { nodes: surround(nodes, wall, {}, "nodes.") }),
  });
}

/** @throws StartError 78 when it is no transport */
export function walledTransport(transport: Transport, wall: Wall): Transport {
  if (wall.own) return transport;
  checkPort(transport, wall.plugin, "send dispose");
  const walled = surround(transport, wall);
  if (transport.keepsBody === true) return walled;
  // The body is shared with the other deliveries of its event, and nobody can freeze bytes.
  const send: Transport["send"] = (request, signal) =>
    walled.send({ ...request, body: new Uint8Array(request.body) }, signal);
  return bound(walled, { send });
}

/** @throws StartError 78 when it is no auth */
export function walledAuth(auth: Auth, wall: Wall): Auth {
  if (wall.own) return auth;
  checkPort(auth, wall.plugin, "authenticate ready");
  return surround(auth, wall, walledRoutes(auth, wall));
}

/** @throws StartError 78 when it is no observer */
export function walledObserver(observer: Observer, wall: Wall): Observer {
  if (wall.own) return observer;
  if (typeof observer !== "object" || observer === null) checkPort(observer, wall.plugin, "observer");
  return surround(observer, wall);
}

export interface StoppedSource extends Source {
  /** Never rejects. @param graceMs how long it is waited for; then what it still hands in is refused */
  stop(graceMs?: number): Promise<void>;
}

/** @throws StartError 78 when it is no source */
export function walledSource(source: Source, wall: Wall): StoppedSource {
  let stopped = false;
  async function stop(graceMs = STOP_MS): Promise<void> {
    await wall.end("stop", graceMs, () => source.stop());
    stopped = true;
  }
  if (wall.own) return bound<StoppedSource>(source, { stop });
  checkPort(source, wall.plugin, "start stop");
  const closed = () => Promise.reject(new Problem("SHUTTING_DOWN", "Nothing is accepted now.", { retryAfter: 5 }));
  const start: Source["start"] = (accept: Accept, info) =>
    source.start((request) => (stopped ? closed() : accept(request)), info);
  return surround<StoppedSource>(source, wall, { ...walledRoutes(source, wall), start, stop });
}

const walledRoutes = ({ routes }: Routes, { call }: Wall) =>
  routes && {
    routes: routes.map((route): Route => {
      const name = `${route.method} ${route.path}`;
      const { identify } = route;
      const within = <T>(work: () => T): T => call(name, work, { ms: ROUTE_MS });
      return {
        ...route,
        ...(identify && { identify: (request) => within(() => identify.call(route, request)) }),
        handle: (request, caller) => within(() => route.handle(request, caller)),
      };
    }),
  };

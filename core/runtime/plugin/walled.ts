/** Puts the wall around each kind of plug-in: which calls have which deadline, and what a failed one means. */
import { StorageError } from "../../model/errors.ts";
import { Problem } from "../../model/problem.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Observer } from "../../ports/observer.ts";
import type { Route } from "../../ports/route.ts";
import type { Source } from "../../ports/source.ts";
import type { Nodes, Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import { thrownText } from "./thrown.ts";
import { checkPort, type Wall } from "./wall.ts";

/** Longest waits, ms: for the judgement of a token, of a URL, for a route, and for what probes and metrics ask of a storage. */
const AUTH_MS = 10_000;
const PROBLEMS_MS = 5_000;
const ROUTE_MS = 120_000;
const SOON_MS = 2_000;
/** What a question to the other nodes gets beyond its time: a storage that is away says so by itself meanwhile. */
const ASK_SPARE_MS = 10_000;
const STOP_MS = 5_000;
const LONGEST_DETAIL = 500;

const METHODS = ["getItem", "getMany", "commit", "range", "watch", "status", "dispose"];
const QUEUE = "add claim wake extend settle withdraw release pause hold cancel sweep depth pending".split(" ");
const UNCERTAIN: ReadonlySet<string> = new Set(["commit", "queue.settle", "queue.withdraw"]);
const SOON: ReadonlySet<string> = new Set(["status", "room", "queue.depth"]);
/** Calls that take as long as they take: one waits for work, one reads all lines, one ends everything. */
const PATIENT: ReadonlySet<string> = new Set(["queue.wake", "queue.sweep", "dispose"]);

/** @throws StartError 78 when it is no storage */
export function walledStorage(storage: Storage, wall: Wall): Storage {
  const { plugin, call, tell } = wall;
  checkPort(storage, plugin, METHODS);
  const { queue, counters, nodes } = storage;
  checkPort(queue, plugin, QUEUE, "queue.");
  checkPort(counters, plugin, ["take", "giveBack"], "counters.");
  if (nodes !== undefined) checkPort(nodes, plugin, ["ask", "answer"], "nodes.");
  const failedIn =
    (name: string) =>
    (cause: Error): never => {
      const text = `${name} of the storage plug-in ${plugin.name}: ${thrownText(cause)}`;
      throw new StorageError(UNCERTAIN.has(name) ? "uncertain" : "unavailable", text, { cause });
    };
  const inside =
    (part: string): Around =>
    (method, work) => {
      const name = part + method;
      if (PATIENT.has(name)) return work();
      const how = { failed: failedIn(name), ...(SOON.has(name) && { ms: SOON_MS }) };
      return call<unknown>(name, work, how);
    };
  const ask: Nodes["ask"] = async (message, wait) => {
    const how = { ms: wait.mostMs + ASK_SPARE_MS, failed: failedIn("nodes.ask"), late: () => false };
    return await call("nodes.ask", () => nodes?.ask(message, wait) ?? Promise.resolve(false), how);
  };
  return bound<Storage>(
    storage,
    {
      queue: bound(queue, { add: (dues) => tell("queue.add", () => queue.add(dues)) }, inside("queue.")),
      counters: bound(counters, {}, inside("counters.")),
      ...(nodes && { nodes: bound(nodes, { ask }, inside("nodes.")) }),
    },
    inside(""),
  );
}

/**
 * @param hide masks secrets in what people see
 * @throws StartError 78 when it is no transport
 */
export function walledTransport(transport: Transport, wall: Wall, hide: (text: string) => string): Transport {
  const { plugin, call, tell } = wall;
  checkPort(transport, plugin, ["send", "dispose"]);
  const { keepsBody = false } = transport;
  const failed = (): never => {
    throw new Problem("INTERNAL_ERROR", "The transport of this URL cannot check it now. Try again later.");
  };
  return bound(transport, {
    ...(transport.problems && {
      async problems(url: string) {
        const said = await call("problems", async () => transport.problems?.(url), { ms: PROBLEMS_MS, failed });
        return said && hide(said);
      },
    }),
    async send(request, signal) {
      const { timeoutMs: ms } = request;
      // The body is shared with the other deliveries of its event, and nobody can freeze bytes.
      const own = keepsBody ? request : { ...request, body: new Uint8Array(request.body) };
      const detail = `the transport gave no reply within ${ms} ms`;
      const late = () => ({ kind: "error", error: "timeout", detail }) as const;
      const reply = await call("send", () => transport.send(own, signal), { ms, signal, late });
      return reply.kind === "response" ? reply : { ...reply, detail: hide(reply.detail).slice(0, LONGEST_DETAIL) };
    },
    forget: (id) => tell("forget", () => transport.forget?.(id)),
    ...walledReadiness(transport, wall),
  });
}

/** @throws StartError 78 when it is no auth */
export function walledAuth(auth: Auth, wall: Wall): Auth {
  const { plugin, call } = wall;
  checkPort(auth, plugin, ["authenticate", "ready"]);
  const failed = () => ({ refused: "the auth plug-in failed" });
  const { firstRun, standing } = auth;
  return bound(auth, {
    ...walledRoutes(auth, wall),
    authenticate: async (request) => call("authenticate", () => auth.authenticate(request), { ms: AUTH_MS, failed }),
    ready: () => call("ready", () => auth.ready(), { failed: () => false }),
    ...(firstRun && { firstRun: async () => call("firstRun", () => firstRun.call(auth), { ms: AUTH_MS }) }),
    ...(standing && { standing: async (sub) => call("standing", () => standing.call(auth, sub), { ms: AUTH_MS }) }),
  });
}

export interface WalledSource extends Source {
  /** Never rejects. @param graceMs how long it is waited for; then what it still hands in is refused */
  stop(graceMs?: number): Promise<void>;
}

/** @throws StartError 78 when it is no source */
export function walledSource(source: Source, wall: Wall): WalledSource {
  checkPort(source, wall.plugin, ["start", "stop"]);
  const closed = () => Promise.reject(new Problem("SHUTTING_DOWN", "Nothing is accepted now.", { retryAfter: 5 }));
  let stopped = false;
  return {
    ...walledRoutes(source, wall),
    start: (accept, info) => source.start((request) => (stopped ? closed() : accept(request)), info),
    async stop(graceMs = STOP_MS) {
      await wall.end("stop", graceMs, () => source.stop());
      stopped = true;
    },
    ...walledReadiness(source, wall),
  };
}

/** Puts the wall around the wrappers; `createObservers` catches what the other members throw. */
export function walledObserver(observer: Observer, { call, plugin }: Wall): Observer {
  if (typeof observer !== "object" || observer === null) checkPort(observer, plugin, ["observer"]);
  const { wrapAccept, wrapSend } = observer;
  return bound(observer, {
    ...(wrapAccept && {
      wrapAccept: (next) => call("wrapAccept", () => wrapAccept.call(observer, next), { failed: () => next }),
    }),
    ...(wrapSend && {
      wrapSend: (next) => call("wrapSend", () => wrapSend.call(observer, next), { failed: () => next }),
    }),
  });
}

/** A plug-in that fails to say whether it is ready is not. */
const walledReadiness = (port: Pick<Source, "readiness">, { call }: Wall): Pick<Source, "readiness"> =>
  port.readiness === undefined
    ? {}
    : {
        readiness: () =>
          call("readiness", () => port.readiness?.(), {
            failed: (error) => `its readiness fails: ${thrownText(error)}`,
          }),
      };

const walledRoutes = ({ routes }: { readonly routes?: readonly Route[] }, { call }: Wall) =>
  routes && {
    routes: routes.map((route): Route => {
      const name = `${route.method} ${route.path}`;
      const { identify } = route;
      return {
        ...route,
        ...(identify && { identify: (request) => call(name, () => identify.call(route, request), { ms: ROUTE_MS }) }),
        handle: (request, caller) => call(name, async () => route.handle(request, caller), { ms: ROUTE_MS }),
      };
    }),
  };

/** Surrounds the call of a method: `work` calls it. */
type Around = (method: string, work: () => unknown) => unknown;

/** Returns `target` with some members replaced. Methods keep their own `this`, as a plug-in may be an instance of a class. */
export function bound<T extends object>(target: T, over: Partial<T>, around?: Around): T {
  const made: Record<string, unknown> = Object.defineProperties({}, Object.getOwnPropertyDescriptors(over));
  for (let at: object = target; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at) as object) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name === "constructor" || name in made) continue;
      const value: unknown = target[name as keyof T];
      if (typeof value !== "function")
        Object.defineProperty(made, name, { enumerable: true, get: () => target[name as keyof T] });
      else {
        const method = (value as (...args: unknown[]) => unknown).bind(target);
        made[name] = around === undefined ? method : (...args: unknown[]) => around(name, () => method(...args));
      }
    }
  }
  return made as T;
}

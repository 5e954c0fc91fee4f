/**
 * The wall around a storage: what it throws is an error that the relay knows how to take, and what it answers is what the
 * port promises. A wrong answer is refused, since the relay would act on it: read a page for ever, or deliver twice.
 */
import { ConflictError, DamagedRecordError, LeaseLostError, StorageError } from "../../model/errors.ts";
import type { StorageFault } from "../../model/errors.ts";
import type { Counters, Durability, Nodes, Queue, Storage } from "../../ports/storage.ts";
import { bound } from "../storage-watch.ts";
import type { PluginName } from "./incidents.ts";
import { isEntries, isLease, isTexts, nextLeases, type Judge } from "./storage-answers.ts";
import { thrownError, thrownText } from "./thrown.ts";
import { createUnanswered } from "./unanswered.ts";
import { checkPort, wallOf, type Walls } from "./wall.ts";

const METHODS = ["getItem", "getMany", "commit", "range", "watch", "status", "dispose"];
const QUEUE = "add claim wake extend settle withdraw release pause hold cancel sweep depth pending".split(" ");
const DURABILITIES: readonly unknown[] = ["fsync", "replicated", "volatile"] satisfies Durability[];
/** What a storage may throw, by its port. */
const KNOWN = [StorageError, ConflictError, LeaseLostError, DamagedRecordError];

/** Longest wait for what the probes, the metrics and the check of the free space ask. */
const SOON_MS = 2_000;

/** What a question to the other nodes gets beyond its time: a storage that is away says so by itself meanwhile. */
const ASK_SPARE_MS = 10_000;

/** Calls that may take as long as they take: one waits for work, one reads all lines, one ends everything. */
const PATIENT: ReadonlySet<string> = new Set(["queue.wake", "queue.sweep", "dispose"]);

const isObject: Judge = (value) => typeof value === "object" && value !== null;

/** @throws StartError 78 when it is no storage */
export function containStorage(storage: Storage, plugin: PluginName, walls: Walls): Storage {
  checkPort(storage, plugin, METHODS);
  checkPort(storage.queue, plugin, QUEUE, "queue.");
  checkPort(storage.counters, plugin, ["take", "giveBack"], "counters.");
  const { queue, counters, nodes } = storage;
  if (nodes !== undefined) checkPort(nodes, plugin, ["ask", "answer"], "nodes.");
  const { inside, outside, note, tell, deadlines } = wallOf(plugin, walls);
  const unanswered = createUnanswered(walls.clock, note);

  /** What the relay gets for what the storage threw. Its name goes along: nobody else's part is to be blamed for it. */
  function failed(call: string, error: unknown, fault: StorageFault): Error {
    if (KNOWN.some((one) => error instanceof one)) return error as Error;
    note(call, error);
    const text = `${call} of the storage plug-in ${plugin.name}: ${thrownText(error)}`;
    return new StorageError(fault, text, { cause: thrownError(error) });
  }

  /**
   * Calls the storage. It answers with a promise, and never throws at once.
   * @param fault what it means when it fails in a way of its own
   */
  function ask<T>(
    call: string,
    work: () => PromiseLike<T> | T,
    judge?: Judge,
    fault: StorageFault = "unavailable",
  ): Promise<T> {
    const judged = (value: T): T => {
      if (judge === undefined || judge(value)) return value;
      throw failed(call, new Error("it answered with something that its port does not allow"), fault);
    };
    const refused = (error: unknown): never => {
      throw failed(call, error, fault);
    };
    try {
      const answer = Promise.resolve(inside(work)).then(judged, refused);
      if (!PATIENT.has(call)) unanswered.watch(call, answer);
      return answer;
    } catch (error) {
      return Promise.reject(failed(call, error, fault));
    }
  }

  /** The same for what may answer at once, on the busiest paths. */
  function askNow<T>(call: string, work: () => PromiseLike<T> | T, judge: Judge): Promise<T> | T {
    let given: PromiseLike<T> | T;
    try {
      given = inside(work);
    } catch (error) {
      throw failed(call, error, "unavailable");
    }
    return judge(given) ? (given as T) : ask(call, () => given, judge);
  }

  /** The same for what answers soon, by its port: what waits for it waits no longer. */
  const askSoon = <T>(call: string, work: () => PromiseLike<T> | T, judge?: Judge): Promise<T> =>
    deadlines.bound(ask(call, work, judge), {
      ms: SOON_MS,
      late: () => {
        throw failed(call, new Error(`no answer within ${SOON_MS} ms`), "unavailable");
      },
    });

  const claimed = nextLeases();
  const watchedQueue: Partial<Queue> = {
    add: (dues) => tell("queue.add", () => queue.add(dues)),
    async claim(request) {
      const leases = await ask("queue.claim", () => queue.claim(request), Array.isArray);
      const fresh = claimed(leases.filter(isLease));
      if (fresh.length === leases.length) return leases;
      const error = new Error("it answered with leases that are none, or that it gave out before");
      // With none that is good the worker rests, or it would ask again at once.
      if (fresh.length === 0) throw failed("queue.claim", error, "unavailable");
      note("queue.claim", error);
      return fresh;
    },
    wake: (signal) => ask("queue.wake", () => queue.wake(signal)),
    extend: (lease) => askNow("queue.extend", () => queue.extend(lease), isBoolean),
    settle: (lease, changes, then) =>
      ask("queue.settle", () => queue.settle(lease, changes, then), undefined, "uncertain"),
    withdraw: (line, changes, next) =>
      ask("queue.withdraw", () => queue.withdraw(line, changes, next), isBoolean, "uncertain"),
    release: (lease, dueAt) => ask("queue.release", () => queue.release(lease, dueAt)),
    pause: (id, ms) => ask("queue.pause", () => queue.pause(id, ms)),
    hold: (id, ms) => ask("queue.hold", () => queue.hold(id, ms)),
    cancel: (id) => ask("queue.cancel", () => queue.cancel(id)),
    sweep: () => ask("queue.sweep", () => queue.sweep()),
    depth: () => askSoon("queue.depth", () => queue.depth(), isObject),
    pending: (ids) => ask("queue.pending", () => queue.pending(ids), Number.isInteger),
  };
  const watchedCounters: Partial<Counters> = {
    take: (takes) =>
      askNow(
        "counters.take",
        () => counters.take(takes),
        (results) => Array.isArray(results) && results.length === takes.length && results.every(isObject),
      ),
    giveBack: (takes, taken) => askNow("counters.giveBack", () => counters.giveBack(takes, taken), isNothing),
  };
  const watchedNodes: Partial<Nodes> | undefined = nodes && {
    ask: (message, wait) =>
      deadlines.bound(
        ask("nodes.ask", () => nodes.ask(message, wait), isBoolean),
        {
          ms: wait.mostMs + ASK_SPARE_MS,
          late() {
            note("nodes.ask", new Error(`no answer within ${wait.mostMs} ms`));
            return false;
          },
        },
      ),
    answer: (act) => inside(() => nodes.answer((text) => outside(() => act(text)))),
  };
  const { tap, room } = storage;

  return bound<Storage>(storage, {
    get durability() {
      try {
        const now = inside(() => storage.durability);
        if (DURABILITIES.includes(now)) return now;
        note("durability", new Error("it is none of fsync, replicated and volatile"));
      } catch (error) {
        note("durability", error);
      }
      return "volatile";
    },
    getItem: (key) =>
      ask(
        "getItem",
        () => storage.getItem(key),
        (value) => isTexts([value]),
      ),
    getMany: (keys) =>
      ask(
        "getMany",
        () => storage.getMany(keys),
        (values) => isTexts(values) && values.length === keys.length,
      ),
    commit: (changes) => ask("commit", () => storage.commit(changes), undefined, "uncertain"),
    range: (prefix, options) => ask("range", () => storage.range(prefix, options), isEntries(prefix, options)),
    watch: (changed) => inside(() => storage.watch((keys) => outside(() => changed(keys)))),
    ...(tap && {
      tap: (seen) => inside(() => tap.call(storage, (changes, sure) => outside(() => seen(changes, sure)))),
    }),
    status: () => askSoon("status", () => storage.status(), isObject),
    ...(room && { room: () => askSoon("room", () => room.call(storage)) }),
    dispose() {
      unanswered.end();
      return ask("dispose", () => storage.dispose());
    },
    queue: bound(queue, watchedQueue),
    counters: bound(counters, watchedCounters),
    ...(nodes && { nodes: bound(nodes, watchedNodes ?? {}) }),
  });
}

const isBoolean: Judge = (value) => typeof value === "boolean";
const isNothing: Judge = (value) => value === undefined;

/** Sends troubled requests in this thread, with transports that it sets up for itself, as the main thread asks. */
import { setPriority } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { MessagePort } from "node:worker_threads";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Reply, Transport } from "../../ports/transport.ts";
import { openSurroundings, type Surroundings } from "../compose/surroundings.ts";
import { createLog, createMetrics } from "../observability/index.ts";
import { contextOf } from "../plugin-context.ts";
import { createLink } from "../threads/link.ts";
import { answerable, createKeptCredentials, type SideRequest, type SideStart } from "./side-call.ts";

/**
 * On Linux the priority is a thread's own. This one gives way to the thread of the healthy receivers, and keeps a quarter of a
 * core that both want: one that has recovered must be able to show it.
 */
const PRIORITY = 5;

/** @param given.load reads the config: a plug-in cannot cross to a thread */
export function runSideThread(given: {
  readonly start: SideStart;
  /** Takes the lines of the log. */
  readonly parent: Pick<MessagePort, "postMessage">;
  readonly load: () => Promise<Plan>;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
}): void {
  const { start, parent, load, clock, env } = given;
  const transports = new Map<number, Transport>();
  const underWay = new Map<number, AbortController>();
  const credentials = createKeptCredentials(isDeepStrictEqual);
  let surroundings: Surroundings | undefined;

  async function begin(): Promise<void> {
    if (process.platform === "linux") setPriority(PRIORITY);
    const plan = await load();
    const log = createLog(plan.log.level, { write: (lines) => parent.postMessage(lines), readable: false, clock });
    surroundings = await openSurroundings(plan, { clock, log, metrics: createMetrics(), env });
    for (const place of start.transports) {
      const plugin = plan.transports[place];
      if (plugin === undefined) continue;
      transports.set(place, await plugin.setup(contextOf(plugin, surroundings.bare, undefined)));
    }
  }

  async function send({ transport, call, request }: SideRequest): Promise<Reply> {
    const to = transports.get(transport);
    if (to === undefined) throw new Error("this transport is not set up here");
    const over = new AbortController();
    underWay.set(call, over);
    try {
      return answerable(await to.send(credentials.of(request), over.signal));
    } finally {
      underWay.delete(call);
    }
  }

  async function end(): Promise<void> {
    await Promise.allSettled([...transports.values()].map((one) => one.dispose()));
    await surroundings?.close();
  }

  const calls: Readonly<Record<string, (...args: never[]) => unknown>> = {
    start: begin,
    stop: end,
    send,
    abort: (call: number) => underWay.get(call)?.abort(new Error("aborted")),
    forget(place: number, subscriptionId: string) {
      credentials.forget(subscriptionId);
      transports.get(place)?.forget?.(subscriptionId);
    },
    look: () => undefined,
  };
  createLink(start.control, (method, args) => calls[method]?.(...(args as never[])));
}

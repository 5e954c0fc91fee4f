/** Takes one event a message from a queue, and offers a message that cannot be stored now again by itself. */
import { isLater, optionProblems } from "relaybox";
import type { Accept, Plugin, Problem, Source } from "relaybox";

/** What a client of the queue does. A message stays in it until it is settled. */
export interface Queue {
  next(signal: AbortSignal): Promise<string>;
  settle(fate: "acknowledged" | "refused", why?: string): void;
}

export interface Options {
  /** The client of the queue. */
  readonly queue: Queue;
}

const queueProblems = (queue: unknown) =>
  typeof (queue as Partial<Queue> | undefined)?.next === "function"
    ? []
    : [{ path: "queue", message: "must be a client" }];

export function myQueue(options: Options): Plugin<"source", Source> {
  const { queue } = options ?? {};

  return {
    kind: "source",
    name: "my-queue",
    problems: optionProblems<Options>(options, { queue: queueProblems }),
    setup({ clock }) {
      const stopping = new AbortController();
      let reading: Promise<void> | undefined;

      async function store(accept: Accept, text: string): Promise<void> {
        for (;;) {
          try {
            await accept({ publications: [{ text, path: "" }], source: "my-queue" });
            return queue.settle("acknowledged");
          } catch (error) {
            const { detail, extras } = error as Partial<Problem>;
            if (!isLater(error)) return queue.settle("refused", detail);
            await clock.sleep(clock.now() + (extras?.retryAfter ?? 1) * 1_000, stopping.signal);
          }
        }
      }

      async function read(accept: Accept): Promise<void> {
        while (!stopping.signal.aborted) await store(accept, await queue.next(stopping.signal));
      }

      return {
        start: (accept) => void (reading ??= read(accept).catch(() => undefined)),
        async stop() {
          stopping.abort();
          await reading;
        },
      };
    },
  };
}

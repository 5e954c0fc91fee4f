/** Shares what one thread learns of a tired upstream with the other threads of the process, over a broadcast channel. */
import { BroadcastChannel } from "node:worker_threads";
import { createUpstreamRest, type UpstreamRest } from "../../api/gateway/rest.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ThreadPlace } from "../threads/node-thread.ts";

/** `row` and `key` are absent where all requests have to stop. */
interface Said {
  readonly row?: string;
  readonly key?: string;
  readonly ms: number;
}

interface SharedRest extends UpstreamRest {
  close(): void;
}

export function sharedRest(clock: Pick<Clock, "monotonic">, { feed }: Pick<ThreadPlace, "feed">): SharedRest {
  const own = createUpstreamRest(clock);
  const channel = new BroadcastChannel(`${feed} rest`);
  channel.onmessage = (event: unknown) => {
    const { row, key, ms } = (event as { readonly data: Said }).data;
    if (row === undefined || key === undefined) own.all(ms);
    else own.row(row, key, ms);
  };
  channel.unref();
  let open = true;
  const say = (said: Said): void => {
    if (open) channel.postMessage(said);
  };
  return {
    leftMs: own.leftMs,
    row(row, key, ms) {
      own.row(row, key, ms);
      say({ row, key, ms });
    },
    all(ms) {
      own.all(ms);
      say({ ms });
    },
    close() {
      open = false;
      channel.close();
    },
  };
}

/**
 * Several nodes in threads of one process, on one disk: the real host of the storage, and the real client in each thread.
 * What they say to each other is copied, and arrives a little later. A thread that is killed is seen to have ended soon after.
 */
import type { Storage } from "../../core/ports/storage.ts";
import type { LinkPort } from "../../core/runtime/threads/link.ts";
import { openStorageClient } from "../../core/runtime/threads/storage-client.ts";
import { createStorageHost, type StorageHost } from "../../core/runtime/threads/storage-host.ts";
import type { SimDisk } from "./disk.ts";
import type { Life, World } from "./world.ts";

/** A message takes so long at most, and the supervisor sees the end of a thread within this, ms. */
const WAY_MS = 3;
const SEEN_MS = 50;

export interface SimThreads extends SimDisk {
  /** Threads have one clock: steps that of the process. */
  step(ms: number): void;
  /** How far that clock is from where it began, ms. */
  skewMs(): number;
}

interface Thread {
  readonly life: Life;
  readonly left: () => Promise<void>;
}

export function simThreads(world: World, disk: SimDisk): SimThreads {
  const { random, say } = world;
  const process_ = world.life("process", 0);
  const threads = new Set<Thread>();
  let skew = 0;
  let opening: Promise<StorageHost> | undefined;

  async function openHost(): Promise<StorageHost> {
    const storage = await disk.open(process_);
    const log = { warn: (message: string, fields: object = {}) => say(`host: ${message} ${JSON.stringify(fields)}`) };
    return createStorageHost({ storage, clock: process_.clock, log });
  }

  /** Two ends of a port, each of which hears what the other one posts, in its order. */
  function portsTo(life: Life): readonly [host: LinkPort, node: LinkPort] {
    const end = (
      from: Life,
      to: Life,
      other: () => ((message: unknown) => void) | undefined,
    ): LinkPort["postMessage"] => {
      let last = 0;
      return (message: unknown) => {
        if (!from.alive()) return;
        const copy: unknown = structuredClone(message);
        last = Math.max(last, world.now() + random.next() * WAY_MS);
        to.after(last - world.now(), () => other()?.(copy));
      };
    };
    let host: ((message: unknown) => void) | undefined;
    let node: ((message: unknown) => void) | undefined;
    return [
      { postMessage: end(process_, life, () => node), on: hears((listener) => (host = listener)) },
      { postMessage: end(life, process_, () => host), on: hears((listener) => (node = listener)) },
    ];
  }

  return {
    rows: disk.rows,
    get sick() {
      return disk.sick;
    },
    set sick(share) {
      disk.sick = share;
    },
    async open(life): Promise<Storage> {
      const host = await (opening ??= openHost());
      const [hostPort, nodePort] = portsTo(life);
      threads.add({ life, left: host.serve(hostPort) });
      return openStorageClient(nodePort, life.clock);
    },
    crash() {
      for (const thread of threads) {
        if (thread.life.alive()) continue;
        threads.delete(thread);
        world.after(random.next() * SEEN_MS, () => void thread.left());
      }
    },
    step(ms) {
      skew += ms;
      process_.step(ms);
      for (const { life } of threads) life.step(ms);
    },
    skewMs: () => skew,
  };
}

/** `on` of a port of which nothing but messages is heard. */
const hears = (listen: (listener: (message: unknown) => void) => void): LinkPort["on"] =>
  ((_: string, listener: (message: unknown) => void) => listen(listener)) as unknown as LinkPort["on"];

/** A storage as a node meets it whose thread is not the one that holds it: over a message port, in one thread here. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { afterEach } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { createStorageHost, type StorageHost } from "../../core/runtime/threads/storage-host.ts";
import { openStorageClient } from "../../core/runtime/threads/storage-client.ts";
import type { Storage, StorageReads } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, type TestClock } from "./clock.ts";
import { pluginContext } from "./plugin-context.ts";
import { quietLog } from "./quiet.ts";

export interface HostedStorage {
  /** The storage that the host holds. */
  readonly inner: Storage;
  readonly host: StorageHost;
  /** Another node on it. */
  connect(): Promise<Storage>;
  /** The thread of this node has ended, without a word. */
  end(node: Storage): Promise<void>;
  /** Closes host and storage. */
  close(): Promise<void>;
}

/**
 * @param reads opens what a node reads by itself
 * @param clock the host's; the nodes' signs of life go by the system's, as a test clock would stop at each of them
 */
export function hostStorage(
  inner: Storage,
  clock: TestClock,
  reads?: () => Promise<StorageReads | undefined>,
): HostedStorage {
  const host = createStorageHost({ storage: inner, clock, log: quietLog() });
  const ends = new Map<Storage, () => Promise<void>>();
  const ports: MessagePort[] = [];
  return {
    inner,
    host,
    async connect() {
      const { port1, port2 } = new MessageChannel();
      ports.push(port1, port2);
      const left = host.serve(port1);
      const node = await openStorageClient(port2, systemClock(), await reads?.());
      ends.set(node, left);
      return node;
    },
    async end(node) {
      await ends.get(node)?.();
    },
    async close() {
      host.close();
      for (const port of ports) port.close();
      await inner.dispose();
    },
  };
}

/** Two nodes on a storage in memory; what a test has opened is closed after it. */
export function useTwoNodes() {
  const open: HostedStorage[] = [];
  afterEach(async () => {
    for (const hosted of open.splice(0)) await hosted.close();
  });
  return async () => {
    const clock = testClock();
    const hosted = hostStorage(await memory().setup(pluginContext(clock, "/nonexistent")), clock);
    open.push(hosted);
    return { clock, hosted, inner: hosted.inner, one: await hosted.connect(), two: await hosted.connect() };
  };
}

/** Several relays on one Redis, each a process of its own, as an operator runs them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChild, type ChildRelay } from "./child-relay.ts";
import { startRedis, type RedisServer } from "./redis.ts";

export interface Nodes extends AsyncDisposable {
  readonly redis: RedisServer;
  readonly all: readonly ChildRelay[];
  readonly folders: readonly string[];
}

export interface NodesOptions {
  readonly count?: number;
  /** Source text of config entries, for all of them. */
  readonly config?: string;
  readonly imports?: readonly string[];
  /** Shorter than an operator may set it. @default 45_000 */
  readonly leaseMs?: number;
  /** The Redis that a node is told of. @default the real one */
  readonly urls?: (redis: RedisServer) => readonly string[] | Promise<readonly string[]>;
}

export async function startNodes(options: NodesOptions = {}): Promise<Nodes> {
  const { count = 2, config = "", imports = [], leaseMs = 45_000 } = options;
  const redis = await startRedis();
  const urls = (await options.urls?.(redis)) ?? Array.from({ length: count }, () => redis.url);
  const folders = urls.map(() => mkdtempSync(join(tmpdir(), "relay-node-")));
  const started = await Promise.allSettled(
    urls.map((url, i) =>
      startChild(folders[i] as string, {
        imports: ["redis", ...imports],
        config: `storage: { ...redis({ url: "${url}", leaseMs: ${leaseMs} }), problems: [], leaseMs: undefined }, ${config}`,
      }),
    ),
  );
  const all = started.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const end = async (): Promise<void> => {
    for (const node of all) {
      // One that was stopped cannot end before it goes on.
      node.running.kill("SIGCONT");
      await node[Symbol.asyncDispose]();
    }
    await redis[Symbol.asyncDispose]();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  };
  const failed = started.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    await end();
    throw failed.reason;
  }
  return { redis, all, folders, [Symbol.asyncDispose]: end };
}

/** Returns the errors in the log of a node that stood still, but for calls to Redis that were too late and were made again. */
export const errorsBesideLateCalls = ({ running }: ChildRelay): readonly string[] =>
  (running.stderr() + running.stdout())
    .split("\n")
    .filter((line) => line.includes('"level":"error"'))
    .filter((line) => !/Redis does not answer \(Command timed out\)","msg":"the queue failed"/.test(line));

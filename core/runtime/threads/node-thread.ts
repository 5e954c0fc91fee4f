/** What a node in a thread and the thread that supervises it tell each other, and what the node knows of the others. */
import type { MessagePort } from "node:worker_threads";
import type { HealthPart } from "../../api/resources/health.ts";

/** What a thread is started with. */
export interface ThreadStart {
  /** 0 for the thread that also does what is done once in a process. */
  readonly index: number;
  readonly count: number;
  /** Carries the calls of this file. */
  readonly control: MessagePort;
  /** Carries the storage that the process holds; `undefined` where each node opens its own. */
  readonly storage: MessagePort | undefined;
  /** The port that the first thread got; `undefined` for that thread itself. */
  readonly port: number | undefined;
  /** Name of the broadcast channel of the live feeds. */
  readonly feed: string;
  /** Whether the log has lines for people. */
  readonly readable: boolean;
}

/** The process, as each of its threads knows it. */
export interface ThreadsState {
  readonly count: number;
  /** Threads whose node serves. */
  readonly running: number;
  /** Threads that ended or hung since the start, and were replaced. */
  readonly replaced: number;
  /** Deliveries under way, of all threads. */
  readonly underWay: number;
  /** What plug-ins say of themselves in `/readyz`, of all threads. */
  readonly parts: Readonly<Record<string, HealthPart>>;
}

/** What a thread says of itself every second. */
export type ThreadBeat = Pick<ThreadsState, "underWay" | "parts">;

/** A node's place among the threads of its process. */
export interface ThreadPlace {
  readonly index: number;
  readonly count: number;
  readonly feed: string;
  /** Known since the last second. */
  readonly state: () => ThreadsState;
}

/** Whether a node does what is done once in a process: sweeps, and sources that have no routes. */
export const isFirst = (place: Pick<ThreadPlace, "index"> | undefined): boolean => (place?.index ?? 0) === 0;

/** How the threads are, as a part of `/readyz`. The process serves while one of them does. */
export function threadsPart({ running, count, replaced }: ThreadsState): HealthPart {
  const state = `${running} of ${count} run${replaced === 0 ? "" : `, ${replaced} replaced since the start`}`;
  return { ready: running === count, state, required: false };
}

/** Parts by name; where several threads have one, the one that is not ready. */
export function worstOf(all: Iterable<ThreadsState["parts"]>): ThreadsState["parts"] {
  const worst: Record<string, HealthPart> = {};
  for (const parts of all)
    for (const [name, part] of Object.entries(parts)) if (worst[name]?.ready !== false) worst[name] = part;
  return worst;
}

/** Each thread gives and gets a sign of life this often, ms. */
export const BEAT_MS = 1_000;

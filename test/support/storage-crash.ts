/** Runs a storage-child, kills it where a test says, and checks what it left. */
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { expect } from "vitest";
import { testClock } from "./clock.ts";
import { pluginContext } from "./plugin-context.ts";
import { name, STORAGES, type StorageName } from "./storage-child.ts";

const CHILD = join(import.meta.dirname, "storage-child.ts");

/** The words of all children so far, over all lives of the folder. */
export interface Ledger {
  readonly accepted: Set<number>;
  readonly ended: Set<number>;
  readonly faults: string[];
  highest: number;
}
export const ledger = (): Ledger => ({ accepted: new Set(), ended: new Set(), faults: [], highest: -1 });

export interface Life {
  readonly folder: string;
  readonly first: number;
  readonly count: number;
  readonly writers: number;
  /** Put before the node command, for strace and the like. */
  readonly under?: readonly string[];
  readonly hold?: boolean;
  /** @default "sqlite" */
  readonly storage?: StorageName;
  /** Called with every line; the child may be killed there. */
  readonly heard?: (line: string, child: ChildProcess) => void;
}

/** Resolves to how the child ended; its word is entered into the book as it comes. */
export async function live(
  book: Ledger,
  life: Life,
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const { folder, first, count, writers, under = [], hold = false, storage = "sqlite", heard } = life;
  const args = [CHILD, folder, String(first), String(count), String(writers), ...(hold ? ["hold"] : [])];
  const [command, ...rest] = [...under, process.execPath, ...args] as [string, ...string[]];
  const env = { ...process.env, NODE_OPTIONS: "", TEST_STORAGE: storage };
  const child = spawn(command, rest, { stdio: ["pipe", "pipe", "pipe"], env });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<number | null>((resolve) => void child.on("close", resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    const [what, n, fault = ""] = line.split(" ");
    if (what === "a") book.accepted.add(Number(n));
    if (what === "b") book.ended.add(Number(n));
    if (what === "x") book.faults.push(fault);
    heard?.(line, child);
  }
  book.highest = Math.max(book.highest, first + count - 1);
  return { code: await ended, stderr };
}

/** What a step has in the storage: its event, and until it is ended its due line, then its delivery. */
const SHELVES = ["event:k", "due:s", "delivery:s"];
/** Steps that are read together. */
const PAGE = 200;

/** Opens the folder as the next process would: everything acknowledged is there, whole, and nothing is there by half. */
export async function inspect(book: Ledger, folder: string, plugin: StorageName = "sqlite"): Promise<void> {
  const storage = await STORAGES[plugin]().setup(pluginContext(testClock(), folder));
  try {
    const wrong: string[] = [];
    for (let from = 0; from <= book.highest; from += PAGE) {
      const steps = Array.from({ length: Math.min(PAGE, book.highest + 1 - from) }, (_, i) => from + i);
      const values = await storage.getMany(steps.flatMap((n) => SHELVES.map((shelf) => `${shelf}:${name(n)}`)));
      for (const [i, n] of steps.entries()) {
        const [event, due, delivery] = values.slice(SHELVES.length * i);
        const state = [event, due, delivery].map((value) => (value === undefined ? "-" : "x")).join("");
        // Nothing, accepted, or ended: never a half.
        const good = book.ended.has(n) ? ["x-x"] : book.accepted.has(n) ? ["xx-", "x-x"] : ["---", "xx-", "x-x"];
        if (!good.includes(state)) wrong.push(`step ${n} is ${state} in place of ${good.join(" or ")}`);
        if ((event ?? `${n}`.padEnd(600, "e")) !== `${n}`.padEnd(600, "e")) wrong.push(`the event of step ${n}`);
        if ((delivery ?? `${n}`.padEnd(200, "d")) !== `${n}`.padEnd(200, "d")) wrong.push(`the delivery of step ${n}`);
      }
    }
    expect(wrong).toEqual([]);
  } finally {
    await storage.dispose();
  }
}

/**
 * Returns the command that a child is run under to have a system call fail, or kill it. With one thread in the pool the
 * calls come in order.
 * @param then as strace writes it: `signal=SIGKILL:when=2`
 * @param only the path whose calls are meant
 */
export const underStrace = (call: string, then: string, only?: string): readonly string[] => [
  ..."env UV_THREADPOOL_SIZE=1 strace -f -qq -o /dev/null -e".split(" "),
  ...[`trace=${call}`, "-e", `inject=${call}:${then}`],
  ...(only === undefined ? [] : ["-P", only]),
];

/** Adds to the queue the due lines that threads have written, in the order in which they come. */
import type { Due } from "../../model/delivery.ts";
import { DUE } from "../../model/schema.ts";
import type { Change, Storage } from "../../ports/storage.ts";
import { leaseName } from "./storage-calls.ts";

export interface AddedLines<Node> {
  /** Adds the lines of a commit that has just been made. */
  committed(node: Node, changes: readonly Change[]): void;
  /**
   * Adds those that are still stored: a thread that stood still after its commit tells of lines which others may have
   * delivered since. What cannot be read waits for the next sweep.
   */
  later(node: Node, dues: readonly Due[]): void;
  /** A line of this name has been leased, so it is in the queue. It may be settled before it is looked up. */
  lent(name: string): void;
  /** Resolves when all of them are in the queue. */
  done(): Promise<unknown> | undefined;
}

/**
 * @param wrote is called with the lines that a node has written, before they are added
 * @param leased whether anybody holds a lease of this name
 */
export function createAddedLines<Node>(
  storage: Pick<Storage, "queue" | "getMany">,
  wrote: (node: Node, dues: readonly Due[]) => void,
  leased: (name: string) => boolean,
): AddedLines<Node> {
  const adding = new Set<Promise<void>>();
  /** Lines that are being looked up. One that is leased meanwhile is taken out of each. */
  const lookedUp = new Set<Map<string, Due>>();

  function add(node: Node, dues: readonly Due[]): void {
    wrote(node, dues);
    storage.queue.add(dues);
  }

  async function addStored(node: Node, dues: readonly Due[]): Promise<void> {
    const lines = new Map(dues.map((due) => [leaseName(due), due]));
    for (const name of lines.keys()) if (leased(name)) lines.delete(name);
    const asked = [...lines.values()];
    lookedUp.add(lines);
    try {
      const values = await storage.getMany(asked.map((due) => DUE.key(due)));
      add(
        node,
        asked.filter((due, i) => values[i] === DUE.write(due) && lines.get(leaseName(due)) === due),
      );
    } finally {
      lookedUp.delete(lines);
    }
  }

  return {
    committed: (node, changes) => add(node, changes.flatMap(lineOf)),
    later(node, dues) {
      const done = addStored(node, dues).catch(() => undefined);
      adding.add(done);
      void done.then(() => adding.delete(done));
    },
    lent(name) {
      for (const lines of lookedUp) lines.delete(name);
    },
    done: () => (adding.size > 0 ? Promise.all(adding) : undefined),
  };
}

const lineOf = (change: Change): readonly Due[] =>
  change.op === "put" && DUE.has(change.key) ? [DUE.orThrow(change.value, change.key)] : [];

/** Batches concurrent script calls into one round trip: a call costs more than what most of them do. */
import { StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { type Calls, script } from "./calls.ts";
import { STEPS } from "./commit-lua.ts";
import type { Large } from "./large.ts";
import { isLarge, type Size, sizeOf } from "./packed.ts";
import type { Now } from "./time-argument.ts";

const SCRIPT = script(STEPS);
/** Most steps in one call, which together are not large either: Redis does nothing else meanwhile. */
const GROUP = 64;
/** Most calls under way at once; steps that come meanwhile go together. */
const FLIGHTS = 2;

export type Kind = "commit" | "settle" | "withdraw" | "extend";

/** `done` has the epoch (empty where no watcher is notified) and the one before it, where this step made it. */
export type StepReply =
  | { readonly end: "done"; readonly epoch: string; readonly before?: string }
  | { readonly end: "conflict"; readonly keys: readonly string[] }
  | { readonly end: "lost" }
  | { readonly end: "outdated"; readonly epoch: string };

export type BatchCalls = (kind: Kind, args: readonly (string | number)[]) => Promise<StepReply>;

interface Pending {
  readonly kind: Kind;
  readonly args: readonly (string | number)[];
  readonly size: Size;
  readonly resolve: (reply: StepReply) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A large step goes alone, so that neither its length nor its failure affects other callers.
 * @param due called with how soon a claim of this node may find something new
 */
export function batchCalls(
  calls: Calls,
  large: Pick<Large, "run">,
  now: Now,
  clock: Pick<Clock, "now">,
  due: (inMs: number) => void,
): BatchCalls {
  const pending: Pending[] = [];
  /** The time when the arguments are sent: they may wait for others. */
  const nodeNow = { toString: () => String(clock.now()) };
  let flights = 0;
  let scheduled = false;

  function schedule(): void {
    if (scheduled || flights >= FLIGHTS || pending.length === 0) return;
    scheduled = true;
    // After everything that is ready now, since it may add more steps.
    setImmediate(() => {
      scheduled = false;
      void fly();
      schedule();
    });
  }

  async function fly(): Promise<void> {
    flights++;
    await run(calls, gather());
    flights--;
    schedule();
  }

  function gather(): readonly Pending[] {
    let [n, args, chars] = [0, 0, 0];
    for (; n < pending.length && n < GROUP; n++) {
      const { size } = pending[n] as Pending;
      args += size.args;
      chars += size.chars;
      if (n > 0 && isLarge({ args, chars })) break;
    }
    return pending.splice(0, n);
  }

  /** Never rejects: each caller gets its own result. */
  async function run(way: Pick<Calls, "run">, group: readonly Pending[]): Promise<void> {
    const args = group.flatMap(({ kind, args: own }) => [kind, own.length, ...own]);
    const changes = group.some(({ kind }) => kind !== "extend");
    try {
      const sent = [now(), nodeNow, ...args];
      const [wakeIn, ...replies] = (await way.run(SCRIPT, sent, { repeatable: true, changes })) as [
        number,
        ...RawReply[],
      ];
      if (wakeIn >= 0) due(wakeIn);
      for (const [i, { resolve }] of group.entries()) resolve(readable(replies[i] as RawReply));
    } catch (error) {
      // Refused because of one of them: each is tried alone. Those already made are known by their id.
      const one = error instanceof StorageError && (error.fault === "full" || error.fault === "broken");
      if (one && group.length > 1) for (const each of group) await run(way, [each]);
      else for (const { reject } of group) reject(error);
    }
  }

  return (kind, args) =>
    new Promise((resolve, reject) => {
      const step: Pending = { kind, args, size: sizeOf(args), resolve, reject };
      if (isLarge(step.size)) return void run(large, [step]);
      pending.push(step);
      schedule();
    });
}

type RawReply = readonly [0, string, string?] | readonly [1, ...string[]] | readonly [2] | readonly [3, string];

function readable(reply: RawReply): StepReply {
  if (reply[0] === 0) return { end: "done", epoch: reply[1], before: reply[2] };
  if (reply[0] === 2) return { end: "lost" };
  if (reply[0] === 3) return { end: "outdated", epoch: reply[1] };
  const [, ...keys] = reply;
  return { end: "conflict", keys };
}

/** Runs commits that replicas must have too: groups of scripts share one `WAIT`, whose answer is checked. */
import type { Evaluate, Script } from "./calls.ts";
import type { Client } from "./connect.ts";
import { type Args, scriptArgs } from "./packed.ts";

/** Redis stops waiting for replicas after this, ms; shorter than a command may take. */
const WAIT_MS = 600;
/**
 * Writes something, also when memory is full. `WAIT` waits only for what its own connection wrote last; a script that
 * finds everything done, by a lost call on an earlier connection or by another node, writes nothing.
 */
const FENCE = `redis.call('UNLINK', KEYS[2]) redis.call('INCR', KEYS[1] .. ':fence')`;
/** Most scripts, and arguments of them, that share one `WAIT`; a single one may have more. */
const GROUP = 256;
const GROUP_ARGS = 20_000;

interface Pending {
  readonly script: Script;
  readonly args: Args;
  /** Send the whole text, because Redis does not know the hash. */
  inFull: boolean;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Runs scripts on a connection of its own, because `WAIT` delays whatever follows. A script that too few replicas have
 * was carried out, but may be lost: it rejects like a lost answer, and is repeated under its commit id.
 */
export function replicated(
  client: Client,
  tag: string,
  replicas: number,
  waitMs: (args: Args) => number = () => WAIT_MS,
): Evaluate {
  const pending: Pending[] = [];
  let busy = false;

  function gather(): readonly Pending[] {
    let n = 0;
    for (let args = 0; n < pending.length && n < GROUP && args < GROUP_ARGS; n++)
      args += (pending[n] as Pending).args.length;
    return pending.splice(0, n);
  }

  async function flush(): Promise<void> {
    while (pending.length > 0) {
      const group = gather();
      try {
        const pipeline = client.pipeline();
        for (const { script, args, inFull } of group) {
          const sent = scriptArgs(tag, args);
          if (inFull) pipeline.call("eval", [script.text, ...sent]);
          else pipeline.call("evalsha", [script.sha, ...sent]);
        }
        pipeline.call("eval", [FENCE, ...scriptArgs(tag, [])]);
        pipeline.wait(replicas, Math.max(...group.map(({ args }) => waitMs(args))));
        const replies = (await pipeline.exec()) ?? [];
        const [fenced, waited] = replies.slice(group.length);
        const [waitError, reached] = (fenced?.[0] ? fenced : waited) ?? [new Error("no answer"), 0];
        for (const [i, one] of group.entries()) settle(one, replies[i], waitError, Number(reached));
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    busy = false;
  }

  function settle(
    one: Pending,
    reply: [Error | null, unknown] | undefined,
    waitError: Error | null,
    reached: number,
  ): void {
    const [error, value] = reply ?? [new Error("no answer"), undefined];
    if (error !== null) {
      if (!error.message.startsWith("NOSCRIPT") || one.inFull) return one.reject(error);
      one.inFull = true;
      pending.push(one);
      return;
    }
    // The WAIT itself failed, or too few replicas answered: carried out here, perhaps nowhere else.
    if (waitError !== null || reached < replicas)
      return one.reject(new Error(`only ${waitError === null ? reached : 0} of ${replicas} replicas have it`));
    one.resolve(value);
  }

  return (script, args) =>
    new Promise((resolve, reject) => {
      pending.push({ script, args, inFull: false, resolve, reject });
      if (busy) return;
      busy = true;
      queueMicrotask(() => void flush());
    });
}

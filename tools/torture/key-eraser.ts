// Keys that come and go under torture: each is subscribed to, published to and erased, one after the other.
import type { Erasures } from "./erasures.ts";
import type { Operator } from "./operator.ts";
import { sleep } from "./process.ts";
import type { Publisher } from "./publisher.ts";
import type { Random } from "./random.ts";
import type { Subject } from "./subject.ts";

export interface KeyEraser {
  begin(): void;
  /** Begins nothing more, and waits until the last erasure is over. */
  finish(): Promise<void>;
  /** Keys that are erased. */
  erased(): number;
  readonly wrong: readonly string[];
}

/** Whoever left an erasure continues it within this once all is well: a round every 30 s, and its pages. */
const DONE_MS = 120_000;
const LOOK_MS = 200;

export interface KeyEraserOptions {
  readonly operator: Operator;
  readonly publisher: Publisher;
  readonly erasures: Erasures;
  readonly random: Random;
}

export function openKeyEraser({ operator, publisher, erasures, random }: KeyEraserOptions): KeyEraser {
  const wrong: string[] = [];
  let rounds = 0;
  let done = 0;
  let endedAt = Number.POSITIVE_INFINITY;
  let working: Promise<unknown> = Promise.resolve();

  async function isDone(path: string): Promise<boolean> {
    const answer = await operator.ask("GET", `${path}/audit?limit=200`);
    const lines = answer?.status === 200 ? (answer.data as unknown as readonly Record<string, unknown>[]) : [];
    return lines.some(({ action, detail }) => action === "key.erased" && detail === "done");
  }

  /** Its subscription was there when the erasure was asked for. */
  async function isGone(path: string, { id = "" }: Subject): Promise<boolean> {
    for (;;) {
      const answer = await operator.ask("GET", `${path}/webhooks/${id}`);
      if (answer?.status === 404 || answer?.status === 200) return answer.status === 404;
      await sleep(LOOK_MS);
    }
  }

  async function round(): Promise<void> {
    const kind = { keyId: `key:gone:${rounds++}`, type: "g:one" };
    const path = encodeURIComponent(kind.keyId);
    const subject = await operator.make(kind, false);
    subject.mood = random.pick(["well", "failing", "hanging", "slow"] as const);
    for (let i = random.int(1, 12); i > 0; i--) await publisher.one(kind);
    const erasure = erasures.ask(kind.keyId);
    for (;;) {
      const answer = await operator.ask("DELETE", path);
      if (answer?.status === 202) break;
      // An erasure whose answer was lost is done.
      if (answer?.status === 404) {
        if (erasure.asks === 1) wrong.push(`${kind.keyId} has events, and is not found when it is to be erased`);
        break;
      }
      await sleep(LOOK_MS);
      if (performance.now() > endedAt + DONE_MS) return;
      erasures.ask(kind.keyId);
    }
    while (!(await isDone(path))) {
      await sleep(LOOK_MS);
      if (performance.now() < endedAt + DONE_MS) continue;
      wrong.push(`the erasure of ${kind.keyId} is not done ${DONE_MS} ms after all was well`);
      return;
    }
    erasure.doneAt = performance.now();
    done++;
    subject.quiet.push({ from: erasure.doneAt, until: Number.POSITIVE_INFINITY, why: "deleted" });
    if (!(await isGone(path, subject))) wrong.push(`${subject.id} is there, and ${kind.keyId} is erased`);
  }

  async function work(): Promise<void> {
    while (endedAt === Number.POSITIVE_INFINITY) await round();
  }

  return {
    wrong,
    erased: () => done,
    begin: () => void (working = work()),
    async finish() {
      endedAt = performance.now();
      await working;
    },
  };
}

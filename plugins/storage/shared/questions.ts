/** Messages between nodes: one asks, the others act and confirm. Lost messages are repeated; dead nodes are not waited for. */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Nodes } from "../../../core/ports/storage.ts";

/** A question without an answer is repeated after this, ms: it may have been lost. */
const AGAIN_MS = 400;
/** Most answers remembered, for repeated questions. */
const REMEMBERED = 1_000;

/** A question has a word; an answer has its recipient. */
export interface Message {
  readonly id: string;
  readonly from: string;
  readonly to?: string;
  readonly word?: string;
}

interface Way {
  /** Sends a question to the other nodes that gave a sign of life within so long, and returns them. */
  ask(silentMs: number, question: Message): Promise<readonly string[]>;
  reply(answer: Message): Promise<unknown>;
}

/** @returns the port, and what handles the messages of the other nodes */
export function questions(
  clock: Clock,
  node: string,
  way: Way,
): Nodes & { readonly heard: (message: Message) => void } {
  const actors = new Set<(word: string) => Promise<unknown>>();
  /** Our open questions: who has answered, and what to call then. */
  const open = new Map<string, { readonly answered: Set<string>; changed: () => void }>();
  /** The work of our actors, under way or done, for questions of other nodes. */
  const acted = new Map<string, Promise<unknown>>();
  let asked = 0;

  async function act({ id, from, word = "" }: Message): Promise<void> {
    const acting = acted.get(id) ?? Promise.allSettled([...actors].map((actor) => actor(word)));
    setNewest(acted, id, acting, REMEMBERED);
    await acting;
    await way.reply({ id, from: node, to: from });
  }

  return {
    heard({ id, from, to, word }) {
      if (to === node) {
        const question = open.get(id);
        question?.answered.add(from);
        question?.changed();
      } else if (to === undefined && from !== node) {
        // The asking node repeats its question when an answer is lost.
        act({ id, from, word }).catch(() => {});
      }
    },
    answer(actor) {
      actors.add(actor);
      return () => void actors.delete(actor);
    },
    async ask(word, { mostMs, silentMs }) {
      const id = `${node}.${(++asked).toString(36)}`;
      const question = { answered: new Set<string>(), changed: (): void => {} };
      open.set(id, question);
      const until = clock.monotonic() + mostMs;
      try {
        for (;;) {
          const asking = await way.ask(silentMs, { id, from: node, word });
          const missing = (): boolean => asking.some((one) => !question.answered.has(one));
          if (!missing()) return true;
          const over = new AbortController();
          question.changed = () => void (missing() || over.abort());
          const left = until - clock.monotonic();
          await clock.sleep(clock.now() + Math.min(AGAIN_MS, left), over.signal).catch(() => {});
          if (!missing()) return true;
          if (clock.monotonic() >= until) return false;
        }
      } finally {
        open.delete(id);
      }
    },
  };
}

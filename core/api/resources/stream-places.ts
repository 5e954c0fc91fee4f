/** Bounds the live streams of a node: in all, of one caller, and of the holders of portal links together. */
import { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";

/** Streams of one node, and of one caller on it: a page for each of a few screens, not a place for everybody. */
const MAX_STREAMS = 500;
const MAX_OF_ONE = 20;
/** Beyond this the rest is for operators, who look when something is wrong. */
const MAX_WITH_PORTALS = 400;
const BUSY_S = 30;

export interface StreamPlaces {
  /** Takes a place. Returns what gives it back, once. @throws Problem PROVIDER_BACKPRESSURE */
  take(caller: Pick<Principal, "sub" | "portal">): () => void;
}

export function createStreamPlaces(): StreamPlaces {
  let open = 0;
  const byCaller = new Map<string, number>();
  return {
    take({ sub, portal }) {
      const own = byCaller.get(sub) ?? 0;
      if (own >= MAX_OF_ONE) {
        const detail = `You have ${MAX_OF_ONE} streams open; close one first.`;
        throw new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: BUSY_S });
      }
      if (open >= (portal === undefined ? MAX_STREAMS : MAX_WITH_PORTALS)) {
        const detail = "Too many streams are open; come back later.";
        throw new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: BUSY_S });
      }
      open++;
      byCaller.set(sub, own + 1);
      return () => {
        open--;
        const left = (byCaller.get(sub) ?? 1) - 1;
        if (left > 0) byCaller.set(sub, left);
        else byCaller.delete(sub);
      };
    },
  };
}

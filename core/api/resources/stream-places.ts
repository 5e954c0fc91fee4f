/** Bounds the live streams of a node: in all, of one caller, of one customer, and of the holders of portal links together. */
import { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";

/** Streams of one node, and of one caller on it: a page for each of a few screens, not a place for everybody. */
const MAX_STREAMS = 500;
const MAX_OF_ONE = 20;
/** Those of one key's portal links together: a customer may be given a link at each visit. */
const MAX_OF_PORTAL = 100;
/** Beyond this the rest is for operators, who look when something is wrong. */
const MAX_WITH_PORTALS = 400;
const BUSY_S = 30;

interface StreamPlaces {
  /** Takes a place. Returns what gives it back, once. @throws Problem PROVIDER_BACKPRESSURE */
  take(caller: Pick<Principal, "sub" | "keys" | "portal">): () => void;
}

const busy = (detail: string): Problem => new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: BUSY_S });

export function createStreamPlaces(): StreamPlaces {
  let open = 0;
  const byCaller = new Map<string, number>();
  const byPortal = new Map<string, number>();
  return {
    take({ sub, keys, portal }) {
      // A link is of one key.
      const customer = portal === undefined ? undefined : String(keys);
      if ((byCaller.get(sub) ?? 0) >= MAX_OF_ONE) throw busy(`You have ${MAX_OF_ONE} streams open; close one first.`);
      if (customer !== undefined && (byPortal.get(customer) ?? 0) >= MAX_OF_PORTAL)
        throw busy(`The portal of this key has ${MAX_OF_PORTAL} streams open; close one first.`);
      if (open >= (portal === undefined ? MAX_STREAMS : MAX_WITH_PORTALS))
        throw busy("Too many streams are open; come back later.");
      const add = (by: 1 | -1): void => {
        open += by;
        addTo(byCaller, sub, by);
        if (customer !== undefined) addTo(byPortal, customer, by);
      };
      add(1);
      return () => add(-1);
    },
  };
}

function addTo(counts: Map<string, number>, name: string, by: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

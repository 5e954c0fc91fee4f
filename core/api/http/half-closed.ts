/** Which requests are answered to a client that has closed its side of the connection already. */
import type { ServerResponse } from "node:http";

/** A property of the response, since a WeakSet costs each request a table entry. */
const ANSWERED = Symbol("answered to a client that has closed its side");
type Answer = ServerResponse & { [ANSWERED]?: true };

/** For a request that is carried out whether its client waits or not: one that only sends nothing more gets its answer. */
export function answerHalfClosed(res: Answer): void {
  res[ANSWERED] = true;
}

export const answersHalfClosed = (res: Answer): boolean => res[ANSWERED] === true;

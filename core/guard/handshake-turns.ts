/**
 * Spreads new TLS connections over turns of the event loop. A handshake costs a millisecond or two of this thread, and an
 * event for many subscriptions asks for many at once. Begun together, they would hold up every other attempt for as long
 * as all of them take; begun a few a turn, each turn stays short and the connections that are open go on in between.
 */

/** Connections that are begun in one turn. */
const PER_TURN = 2;

/** @returns resolves when another connection may begin: at once, unless several began in this turn */
export function handshakeTurns(perTurn = PER_TURN): () => Promise<void> {
  const waiting: (() => void)[] = [];
  let begun = 0;

  function turn(): void {
    begun = Math.min(waiting.length, perTurn);
    for (const begin of waiting.splice(0, begun)) begin();
    if (begun > 0) setImmediate(turn);
  }

  return () => {
    if (begun === 0) setImmediate(turn);
    if (begun < perTurn && waiting.length === 0) {
      begun++;
      return Promise.resolve();
    }
    return new Promise((resolve) => void waiting.push(resolve));
  };
}

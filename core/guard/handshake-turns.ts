/**
 * Spreads new TLS connections over turns of the event loop. A handshake costs a millisecond or two of this thread, and an
 * event for many subscriptions asks for many at once. Begun together, they would hold up every other attempt for as long
 * as all of them take. They are begun one at a time, each followed by a turn without one, so that the connections that are
 * open go on in between: beside 1,000 hostile subscriptions a healthy receiver's p99 is half of what it is with two in
 * every turn (`npm run bench -- isolation`). A turn without other work takes microseconds, so a relay that has nothing
 * else to do begins as many as its thread can carry.
 */

/** @returns resolves when another connection may begin: at once, unless one began in this turn or the one before */
export function handshakeTurns(): () => Promise<void> {
  const waiting: (() => void)[] = [];
  let resting = false;

  function rest(): void {
    resting = true;
    setImmediate(() => void setImmediate(next));
  }

  function next(): void {
    resting = false;
    const begin = waiting.shift();
    if (begin === undefined) return;
    rest();
    begin();
  }

  return () => {
    if (resting) return new Promise((resolve) => void waiting.push(resolve));
    rest();
    return Promise.resolve();
  };
}

/** The relay's clock: all times that the page is given are of it, and the browser's may be another one. */

let aheadMs = 0;
/** An answer takes a while to arrive, which is no difference between the clocks. */
const SAME_MS = 60_000;

/** Returns epoch ms. */
export const relayNow = (): number => Date.now() + aheadMs;

/** @param timestamp when the relay has answered just now */
export function setRelayTime(timestamp: string): void {
  const ahead = Date.parse(timestamp) - Date.now();
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < SAME_MS ? 0 : ahead;
}

/** How much longer than asked a busy machine makes things take: for bounds that are about the relay and not about it. */
import { spawn } from "node:child_process";

/** How often the probe looks, ms. */
const EVERY_MS = 20;

/**
 * Watches a process that does nothing but wait, until `stop`.
 * @returns by how much its waits were late in all, ms
 */
export function watchLateness(): { stop(): Promise<number> } {
  const script = `let last = performance.now(), late = 0;
setInterval(() => { const now = performance.now(); late += Math.max(0, now - last - ${EVERY_MS}); last = now; }, ${EVERY_MS});
process.stdin.on("end", () => { process.stdout.write(String(late)); process.exit(); }).resume();`;
  const probe = spawn(process.execPath, ["-e", script], { stdio: ["pipe", "pipe", "inherit"] });
  let said = "";
  probe.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const ended = new Promise<void>((resolve) => probe.once("close", () => resolve()));
  return {
    async stop() {
      probe.stdin.end();
      await ended;
      return Number(said);
    },
  };
}

/** Shows the progress of long work: a bar on a terminal, nothing elsewhere. */
import type { CliEnvironment } from "./environment.ts";

const WIDTH = 24;
/** The shortest time between two updates, ms. */
const EVERY_MS = 100;

/** @param total the whole amount; `undefined` when it is not known */
export function progressBar({ stderr, clock }: CliEnvironment, what: string, total?: number) {
  let done = 0;
  let wroteAt = Number.NEGATIVE_INFINITY;
  function write(): void {
    const share = total === undefined ? undefined : Math.min(1, done / Math.max(1, total));
    const bar =
      share === undefined
        ? ""
        : `[${"#".repeat(Math.round(share * WIDTH)).padEnd(WIDTH, ".")}] ${Math.floor(share * 100)} % `;
    stderr.write(`\rrelay: ${what} ${bar}${done.toLocaleString("en")}`);
  }
  return {
    add(more: number): void {
      done += more;
      if (!stderr.isTTY || clock.monotonic() - wroteAt < EVERY_MS) return;
      wroteAt = clock.monotonic();
      write();
    },
    /** Ends the line. */
    end(): void {
      if (!stderr.isTTY) return;
      write();
      stderr.write("\n");
    },
  };
}

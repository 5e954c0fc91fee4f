/** Prints the demo's steps, and counts the promises that did not hold. */
import { type CliEnvironment, paint } from "../support/environment.ts";
import { printable } from "../support/output.ts";
import type { ReceivedDelivery } from "./demo-stage.ts";

export interface Narrator {
  title(text: string): void;
  say(text: string): void;
  /** A promise, and whether it held. */
  check(promise: string, held: boolean): void;
  arrival(seen: ReceivedDelivery): void;
  end(seconds: string): void;
  failures(): number;
}

export function createNarrator({ stdout, print }: CliEnvironment): Narrator {
  let held = 0;
  let failed = 0;
  let chapter = 0;
  const say = (text: string): void => print(`   ${printable(text)}`);
  return {
    say,
    title: (text) => print(`\n${paint(stdout, "bold", `${++chapter}. ${text}`)}`),
    check(promise, good) {
      if (good) held += 1;
      else failed += 1;
      print(`   ${paint(stdout, good ? "green" : "red", good ? "ok  " : "NOT ")} ${printable(promise)}`);
    },
    arrival: ({ path, attempt, verdict, status, afterMs }) =>
      say(
        [
          "arrived".padEnd(9),
          path.padEnd(7),
          `attempt ${attempt}`,
          `after ${String(afterMs).padStart(4)} ms`,
          `signature ${verdict}`,
          `answered ${status}`,
        ].join("  "),
      ),
    end: (seconds) =>
      print(
        failed === 0
          ? `\n${paint(stdout, "green", `All ${held} promises held, in ${seconds} s.`)}`
          : `\n${paint(stdout, "red", `${failed} of ${held + failed} promises did not hold.`)}`,
      ),
    failures: () => failed,
  };
}

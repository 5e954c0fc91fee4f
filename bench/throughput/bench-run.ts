/** Runs a bench around its measuring: benches read bounds, report, end by themselves and leave nothing behind. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endAll } from "./process.ts";

/** Progress goes to stderr, so that `--json` alone is on stdout. */
export const say = (text: string): void => void process.stderr.write(`${text}\n`);

export const round = (value: number, digits = 0): number => Number(value.toFixed(digits));

/** An option as a whole number in its bounds. */
export const within = (text: string, least: number, most: number, otherwise: number): number =>
  Math.min(Math.max(Math.floor(Number(text)) || otherwise, least), most);

export interface BenchRun<Result> {
  /** It ends after so many seconds, whatever hangs. */
  readonly longestS: number;
  readonly json: boolean;
  /** @param folder of its own, removed at the end */
  measure(folder: string): Promise<Result>;
  print(result: Result): void;
  /** True when the result is as it should be. @default always */
  met?(result: Result): boolean;
  /** Ends what `measure` has started beside processes. */
  end?(): Promise<void>;
}

/** Measures, prints and ends the process: with 1 where it failed, or did not meet what it must. */
export async function benchRun<Result>(bench: BenchRun<Result>): Promise<never> {
  const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
  const stop = (): void => {
    endAll();
    process.exit(1);
  };
  const deadline = setTimeout(() => {
    say("the benchmark did not end in time");
    stop();
  }, bench.longestS * 1_000);
  process.once("SIGTERM", stop);
  let met = false;
  try {
    const result = await bench.measure(folder);
    met = bench.met?.(result) ?? true;
    if (bench.json) console.log(JSON.stringify(result));
    else bench.print(result);
  } catch (error) {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
  } finally {
    clearTimeout(deadline);
    endAll();
    await bench.end?.();
    await rm(folder, { recursive: true, force: true });
  }
  process.exit(met ? 0 : 1);
}

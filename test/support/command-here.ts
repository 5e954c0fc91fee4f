/**
 * Runs the command `relay` in this process: the same program with an environment of its own, for tests of what a command
 * says and asks. A process for each costs a hundred times as much; that it starts, flushes and ends as one is what
 * `command.ts` is for. A config file is read once: one that changes needs a process, or another name.
 */
import { PassThrough, Readable } from "node:stream";
import { main } from "../../cli/program.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { Ran, RunOptions } from "./command.ts";

export interface HereOptions extends Pick<RunOptions, "cwd" | "env" | "input"> {
  /** @default the system's */
  readonly clock?: Clock;
}

/** Runs the command to its end. */
export async function runHere(args: readonly string[], options: HereOptions = {}): Promise<Ran> {
  const { cwd = process.cwd(), env = {}, input = "", clock = systemClock() } = options;
  const [out, err] = [written(), written()];
  const code = await main(args, {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
    cwd,
    clock,
    stdin: Readable.from(input === "" ? [] : [Buffer.from(input)]) as NodeJS.ReadStream,
    stdout: out.stream,
    stderr: err.stream,
    print: (line) => void out.stream.write(`${line}\n`),
    say: (line) => void err.stream.write(`${line}\n`),
  });
  return { code, stdout: out.text(), stderr: err.text() };
}

/** A stream that keeps what is written to it; no terminal. */
function written(): { readonly stream: NodeJS.WriteStream; text(): string } {
  const chunks: Buffer[] = [];
  const stream = new PassThrough().on("data", (chunk: Buffer) => chunks.push(chunk));
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => Buffer.concat(chunks).toString() };
}

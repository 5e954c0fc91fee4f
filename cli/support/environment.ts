/** Gives a command the parts of its process that it uses. Tests pass their own. */
import { styleText } from "node:util";
import type { Clock } from "../../core/ports/clock.ts";
import { systemClock } from "../../core/runtime/index.ts";
import { EX_OK, EX_UNAVAILABLE } from "./exit.ts";

export interface CliEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Clock;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** Data: a line on stdout. */
  print(line: string): void;
  /** Everything else: a line on stderr. */
  say(line: string): void;
  /** Message and exit code of a command that still has work to do, when nobody reads its output any more. */
  unread?: { readonly message: string; readonly exitCode: number } | undefined;
}

export function processEnvironment(): CliEnvironment {
  const { env, stdin, stdout, stderr } = process;
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") {
      if (io.unread !== undefined) io.say(`relay: ${io.unread.message}`);
      // For a command that only prints, a reader that closes the pipe early (`| head`) is no error.
      process.exit(io.unread?.exitCode ?? EX_OK);
    }
    stderr.write(`relay: the output cannot be written (${error.code ?? error.message}): it is not whole\n`);
    process.exit(EX_UNAVAILABLE);
  });
  // When nobody reads messages any more, the command goes on without them.
  stderr.on("error", () => undefined);
  const io: CliEnvironment = {
    env,
    cwd: process.cwd(),
    clock: systemClock(),
    stdin,
    stdout,
    stderr,
    print: (line) => void stdout.write(`${line}\n`),
    say: (line) => void stderr.write(`${line}\n`),
  };
  return io;
}

/** True when the stack of an error's cause is shown too, for those who write a plug-in. */
export const isDetailed = ({ env }: Pick<CliEnvironment, "env">): boolean =>
  ["debug", "trace"].includes(env["RELAY_LOG_LEVEL"] ?? "");

type Style = Parameters<typeof styleText>[0];

/** Colours for a terminal; plain text for everything else, and under NO_COLOR. */
export const paint = (stream: NodeJS.WriteStream, style: Style, text: string): string =>
  styleText(style, text, { stream });

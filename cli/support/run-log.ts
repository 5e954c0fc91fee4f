/**
 * Says that the relay starts and stops, and why it does not: a sentence on a terminal, elsewhere one JSON object a line, as
 * the log writes it. These lines do not depend on the log level.
 */
import { StartError } from "../../core/model/errors.ts";
import { isoTime } from "../../core/lib/time.ts";
import { ConfigError } from "../../config/problems.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_SOFTWARE, ExitError } from "./exit.ts";

type Fields = Readonly<Record<string, string | number | undefined>>;

export interface RunLog {
  /** @param sentence for a terminal; @param message with `fields`: for programs */
  info(sentence: string, message: string, fields: Fields): void;
  error(sentence: string, message: string, fields: Fields): void;
}

export function createRunLog({ stderr, clock, say }: Pick<CliEnvironment, "stderr" | "clock" | "say">): RunLog {
  const write =
    (level: string) =>
    (sentence: string, message: string, fields: Fields): void => {
      if (stderr.isTTY) say(`relay: ${sentence}`);
      else say(JSON.stringify({ level, time: isoTime(clock.now()), ...fields, msg: message }));
    };
  return { info: write("info"), error: write("error") };
}

/**
 * Writes why the relay did not start, for programs: each problem of a config has a line of its own.
 * @param detailed whether the stack of the cause is written too
 * @returns the exit code
 */
export function writeFailure(error: unknown, { error: write }: RunLog, detailed: boolean): number {
  const line = (message: string, fields: Fields): void => write(message, message, fields);
  if (!(error instanceof StartError || error instanceof ExitError)) {
    const { stack } = error instanceof Error ? error : new Error(String(error));
    line("a fault of the relay itself", { detail: stack, exitCode: EX_SOFTWARE });
    return EX_SOFTWARE;
  }
  const { exitCode, message } = error;
  if (error instanceof ConfigError) {
    for (const { path, message: detail } of error.problems) line("a problem of the config", { path, detail });
    line("cannot start", { detail: "the config is refused", file: error.file, exitCode });
  } else {
    const cause = detailed ? (error.cause as Error | undefined)?.stack : undefined;
    line("cannot start", { detail: message, error: cause, exitCode });
  }
  return exitCode;
}

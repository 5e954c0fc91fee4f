/** `relay start`: runs the relay until a signal stops it. */
import { flushCompileCache } from "node:module";
import { ConfigError } from "../../config/problems.ts";
import { isoTime } from "../../core/lib/time.ts";
import { StartError } from "../../core/model/errors.ts";
import { keepHeapTidy, nodeParts, observabilityParts } from "../../core/runtime/index.ts";
import { VERSION } from "../../core/model/version.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { isDetailed, type CliEnvironment } from "../support/environment.ts";
import { type Command, CONFIG_OPTIONS, loadFor } from "../support/command.ts";
import { EX_SOFTWARE, EX_TEMPFAIL, ExitError, withExitCode } from "../support/exit.ts";
import { reloader, rereader } from "../support/reload.ts";
import type { StartedBy } from "../support/transform-processes.ts";

const start: Command = {
  usage: "start",
  about: "run the relay",
  options: {
    ...CONFIG_OPTIONS,
    "--host <host>": "address to listen on (RELAY_HOST)",
    "--port <port>": "port to listen on, 0 for any free one (RELAY_PORT)",
    "--log-level <level>": "trace, debug, info, warn, error or silent (RELAY_LOG_LEVEL)",
    "--until-stdin-ends": "stop when the standard input ends: for a program that starts a relay of its own",
  },
  async run(given, io) {
    // Copied now, because reading the config adds to the process's own.
    const env = { ...io.env };
    const host = given.text("host");
    const port = given.whole("port", 0, 65_535);
    const logLevel = given.text("log-level");
    if (given.flag("until-stdin-ends")) stopWithStdin(io);
    try {
      const { plan, file, flags } = await loadFor(given, io, {
        ...(host !== undefined && { host }),
        ...(port !== undefined && { port }),
        ...(logLevel !== undefined && { logLevel }),
      });
      return await runRelay(plan, io, file, { flags, env, cwd: io.cwd });
    } catch (error) {
      if (io.stderr.isTTY) throw error;
      return writeFailure(withExitCode(error), createRunLog(io), isDetailed(io));
    }
  },
};

/** Asks the process to stop when its standard input ends, as it does when the process that started it is killed. */
function stopWithStdin({ stdin }: CliEnvironment): void {
  let asked = false;
  const note = (): void => void (asked = true);
  process.once("SIGTERM", note).once("SIGINT", note);
  const ended = (): void => {
    // A second signal would end it at once.
    if (!asked) process.kill(process.pid, "SIGTERM");
  };
  stdin.once("end", ended).once("error", ended).resume();
  // A file, such as /dev/null, has none.
  if ("unref" in stdin) stdin.unref();
}

/** The process ends this long after `shutdownMs`, even if something still keeps it alive. */
const STUCK_MS = 500;
/** The garbage of a start is collected this long after it: collecting blocks, and the first callers come before. */
const TIDY_AFTER_MS = 1_000;

/**
 * Runs until SIGTERM or SIGINT, also while it still starts; a second one ends the process at once. SIGHUP reloads.
 * @throws StartError
 */
async function runRelay(plan: Plan, io: CliEnvironment, file: string | undefined, by: StartedBy): Promise<void> {
  const { createLog, createMetrics } = await observabilityParts();
  const log = createLog(plan.log.level);
  const [{ transformSpawner }, { threadsGone }] = await Promise.all([
    import("../support/transform-processes.ts"),
    import("../../config/warnings.ts"),
  ]);
  for (const { message } of threadsGone(plan)) log.warn(message);
  const [{ composeRelay }, { pages }] = await Promise.all([nodeParts(), import("../../dashboard/pages.ts")]);
  const outside = { clock: io.clock, log, metrics: createMetrics(), env: io.env };
  const relay = composeRelay(plan, { ...outside, transforms: transformSpawner(by), pages });
  const runLog = createRunLog(io);
  const asked = Promise.withResolvers<void>();
  let signals = 0;
  let stopping: { readonly signal: string; readonly began: number } | undefined;
  const signal = (name: NodeJS.Signals): void => {
    signals += 1;
    // 128 + the signal's number, as shells have it.
    if (signals > 1) process.exit(name === "SIGINT" ? 130 : 143);
    stopping = { signal: name, began: io.clock.monotonic() };
    runLog.info(`stopping (${name})`, "stopping", { signal: name });
    asked.resolve(relay.stop());
    void io.clock.sleep(io.clock.now() + plan.server.shutdownMs + STUCK_MS).then(() => {
      runLog.error("did not stop in time", "did not stop in time", { signal: name, exitCode: EX_TEMPFAIL });
      process.exit(EX_TEMPFAIL);
    });
  };
  const started = Promise.withResolvers<void>();
  const reload = reloader(relay, plan, rereader(by), log);
  const uncaught = (error: unknown): void => {
    const code = writeFailure(error, runLog, true);
    if (io.stderr.isTTY) io.say(error instanceof Error ? String(error.stack) : String(error));
    process.exit(code);
  };
  const hangUp = (): void => void started.promise.then(reload, () => undefined);
  const over = new AbortController();
  process.on("SIGTERM", signal).on("SIGINT", signal).on("SIGHUP", hangUp).on("uncaughtException", uncaught);
  try {
    const { url, made } = await relay.start();
    if (signals === 0) greet(plan, runLog, { url, made, file });
    void io.clock.sleep(io.clock.now() + TIDY_AFTER_MS, over.signal).then(
      () => keepHeapTidy(io.clock, over.signal),
      () => undefined,
    );
    started.resolve();
    await asked.promise;
  } catch (error) {
    // A start that a signal cuts off is not a failure.
    if (signals === 0) throw error;
    await asked.promise;
  } finally {
    over.abort();
    await relay.stop();
    await log.flush();
    process.off("SIGTERM", signal).off("SIGINT", signal).off("SIGHUP", hangUp);
    process.off("uncaughtException", uncaught);
  }
  if (stopping !== undefined) {
    const durationMs = Math.round(io.clock.monotonic() - stopping.began);
    runLog.info(`stopped after ${durationMs} ms`, "stopped", { signal: stopping.signal, durationMs });
    // A log that nobody reads would keep the process.
    void io.clock.sleep(io.clock.now() + STUCK_MS).then(() => void (io.stderr.writableLength > 0 && process.exit()));
  }
}

interface Begun {
  readonly url: string;
  readonly made: readonly string[];
  readonly file: string | undefined;
}

function greet(plan: Plan, { info }: RunLog, { url, made, file }: Begun): void {
  for (const path of made) info(`made ${path}`, "made a key file", { file: path });
  const page = plan.dashboard ? `dashboard at ${url}/developers\nrelay: ` : "";
  const sentence = `config ${file ?? "built in"}, data in ${plan.dataDir}\nrelay: ${page}listening at ${url}`;
  info(sentence, `started, listening at ${url}`, { version: VERSION, file, folder: plan.dataDir, url });
  // Code compiled for this start makes the next one fast, even if this one is killed.
  flushCompileCache();
}

type Fields = Readonly<Record<string, string | number | undefined>>;

type RunLog = ReturnType<typeof createRunLog>;

/** Each line has a sentence for a terminal, and a message with fields for programs. */
function createRunLog({ stderr, clock, say }: Pick<CliEnvironment, "stderr" | "clock" | "say">) {
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
 * @param detailed true when the stack of the cause is written too
 * @returns the exit code
 */
function writeFailure(error: unknown, { error: write }: RunLog, detailed: boolean): number {
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

export const commands: readonly Command[] = [start];

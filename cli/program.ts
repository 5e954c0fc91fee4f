/** The program `relay`: finds the command, reads its options with cac, and turns its result into an exit code. */
import { cac, type CAC } from "cac";
import { didYouMean } from "../config/problems.ts";
import { VERSION } from "../core/model/version.ts";
import { systemClock } from "../core/runtime/index.ts";
import { StartError } from "../core/model/errors.ts";
import { type CliEnvironment, isDetailed, processEnvironment } from "./support/environment.ts";
import { type Command, Given, type Options } from "./support/command.ts";
import { EX_OK, EX_SOFTWARE, EX_USAGE, ExitError, usage, UsageError, withExitCode } from "./support/exit.ts";
import { printableLines } from "./support/output.ts";

/** The file of a command, or of a group of them, by its first word: only that of the command that is run is loaded. */
const FILES: Readonly<Record<string, () => Promise<{ readonly commands: readonly Command[] }>>> = {
  start: () => import("./commands/start.ts"),
  init: () => import("./commands/init.ts"),
  check: () => import("./commands/check.ts"),
  demo: () => import("./commands/demo.ts"),
  dev: () => import("./commands/dev.ts"),
  publish: () => import("./commands/publish.ts"),
  subscriptions: () => import("./commands/subscriptions.ts"),
  events: () => import("./commands/events.ts"),
  replay: () => import("./commands/replay.ts"),
  listen: () => import("./commands/listen.ts"),
  users: () => import("./commands/users.ts"),
  token: () => import("./commands/keys.ts"),
  keys: () => import("./commands/keys.ts"),
  "api-keys": () => import("./commands/api-keys.ts"),
  status: () => import("./commands/status.ts"),
  attention: () => import("./commands/figures/attention.ts"),
  stats: () => import("./commands/figures/stats.ts"),
  backup: () => import("./commands/backup.ts"),
  restore: () => import("./commands/backup.ts"),
  migrate: () => import("./commands/migrate.ts"),
  tail: () => import("./commands/tail.ts"),
  doctor: () => import("./commands/check.ts"),
  audit: () => import("./commands/audit.ts"),
  secrets: () => import("./commands/secrets.ts"),
  build: () => import("./commands/build.ts"),
  mcp: () => import("./mcp/command.ts"),
};

/** Runs one command line and resolves to the exit code. Never rejects. */
export async function main(argv: readonly string[], io: CliEnvironment = processEnvironment()): Promise<number> {
  try {
    return (await run(argv, io)) ?? EX_OK;
  } catch (thrown) {
    const error = withExitCode(thrown);
    if (error instanceof ExitError || error instanceof StartError) {
      io.say(`relay: ${printableLines(error.message)}`);
      const stack = (error.cause as Error | undefined)?.stack;
      if (stack !== undefined && isDetailed(io)) io.say(printableLines(stack));
      return error.exitCode;
    }
    io.say(`relay: this is a fault of relay itself\n${printableLines(String((error as Error)?.stack ?? error))}`);
    return EX_SOFTWARE;
  }
}

/** A command that failed ends its process after this, ms, whatever a plug-in that could not start has left running. */
const LEFT_RUNNING_MS = 1_000;

/** Ends the process with the exit code of its command, once nothing more is to do. */
export function endWith(code: number): void {
  process.exitCode = code;
  if (code === EX_OK) return;
  const clock = systemClock();
  void clock.sleep(clock.now() + LEFT_RUNNING_MS).then(() => process.exit());
}

async function run(argv: readonly string[], io: CliEnvironment): Promise<number | void> {
  const [first = ""] = commandWords(argv);
  if (!Object.hasOwn(FILES, first)) return runNone(argv, first, io);
  const commands = await commandsOf(first);
  const words = commandWords(argv);
  const command =
    commands.find(({ usage: text }) => nameOf(text) === words.join(" ")) ??
    commands.find(({ usage: text }) => nameOf(text) === first);
  const cli = program(commands);
  if (command === undefined) {
    if (argv.includes("--help") || argv.includes("-h"))
      return listed(commands, "relay ").forEach((line) => io.print(line));
    const names = commands.map(({ usage: text }) => nameOf(text).split(" ")[1] ?? "");
    const second = words[1];
    if (second === undefined) throw usage(`${first} what? There are: ${names.join(", ")}`);
    throw usage(`unknown command: ${first} ${second}${didYouMean(second, names)}; there are: ${names.join(", ")}`);
  }
  const name = nameOf(command.usage);
  const rest = argv.slice(name.split(" ").length);
  try {
    cli.parse(["node", "relay", name, ...mark(rest, command.options ?? {}, name)], { run: false });
    if (cli.matchedCommand === undefined) return EX_OK;
    let result: Promise<number | void> | undefined;
    cli.matchedCommand.action((...values: unknown[]) => {
      const options = values.pop() as Record<string, unknown>;
      if ((options["--"] as unknown[]).length > 0) throw usage("nothing can follow --");
      const args = values
        .flat()
        .filter((value) => value !== undefined)
        .map((value) => String(unmark(value)));
      // As an unset variable of a shell script leaves it.
      if (args.includes("")) throw usage("an argument is empty");
      result = command.run(new Given(args, options), io);
    });
    cli.runMatchedCommand();
    return await result;
  } catch (error) {
    throw usageError(error, command, name);
  }
}

/** Loads the commands that begin with this word. */
async function commandsOf(first: string): Promise<readonly Command[]> {
  const { commands } = await (FILES[first] as (typeof FILES)[string])();
  return commands.filter(({ usage: text }) => nameOf(text).split(" ")[0] === first);
}

/** Answers no command, an unknown one, or a request for help about all of them. */
async function runNone(argv: readonly string[], first: string, io: CliEnvironment): Promise<number> {
  if (argv.includes("--version") || argv.includes("-v")) {
    io.print(`relay ${VERSION}`);
    return EX_OK;
  }
  const known = Object.keys(FILES);
  const help = first === "help" || argv.includes("--help") || argv.includes("-h");
  if (first !== "" && !help) throw usage(`unknown command: ${first}${didYouMean(first, known)}; see relay --help`);
  if (argv.length > 0 && !help) throw usage(`unknown option: ${argv[0] ?? ""}; see relay --help`);
  const all = (await Promise.all(known.map(commandsOf))).flat();
  const text = [
    `relay ${VERSION}: a webhook relay`,
    "",
    "relay <command> [options]",
    "",
    ...listed(all, "  "),
    "",
    "relay <command> --help tells the options of one command.",
  ].join("\n");
  if (help) io.print(text);
  else io.say(text);
  return help ? EX_OK : EX_USAGE;
}

function listed(commands: readonly Command[], before: string): readonly string[] {
  const width = Math.max(...commands.map(({ usage: text }) => text.length));
  return commands.map((command) => `${before}${command.usage.padEnd(width)}  ${command.about}`);
}

function program(commands: readonly Command[]): CAC {
  const cli = cac("relay");
  for (const command of commands) {
    const made = cli.command(command.usage, command.about);
    for (const [flags, about] of Object.entries(command.options ?? {}))
      made.option(flags, about, takesValue(flags) ? { type: [unmark] } : {});
    for (const example of command.examples ?? []) made.example(`  $ ${example}`);
  }
  // An option that negates has no default worth naming.
  return cli.help((sections) => [
    { body: cli.matchedCommand?.description ?? "" },
    ...sections.slice(1).map(({ title, body }) => ({ title, body: body.replaceAll(" (default: true)", "") })),
  ]);
}

/** The leading words of a command line that are no options: at most two, for the name of a command. */
function commandWords(argv: readonly string[]): readonly string[] {
  const end = argv.findIndex((arg) => arg.startsWith("-"));
  const words = argv.slice(0, end < 0 ? 2 : Math.min(end, 2));
  const group = words[0] !== undefined && GROUPS.has(words[0]);
  return group ? words : words.slice(0, 1);
}

const GROUPS: ReadonlySet<string> = new Set(["api-keys", "subscriptions", "events", "users", "secrets", "attention"]);
const nameOf = (text: string): string => text.replace(/ *[<[].*/, "");
const takesValue = (flags: string): boolean => flags.includes("<");

/**
 * Joins each value to its option and marks it as text. Otherwise cac reads `007` as 7, refuses `-` as a value or
 * an argument, and takes the argument behind a plain or an unknown option for its value. The option's type removes the mark.
 * @throws UsageError for an option that the command does not have
 */
function mark(argv: readonly string[], options: Options, command: string): string[] {
  const all = Object.keys(options);
  const valued = new Set(all.filter(takesValue).map((flags) => flags.replace(/ .*/, "")));
  const plain = new Set(all.filter((flags) => !takesValue(flags)));
  const out: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] as string;
    if (arg === "--") return [...out, ...argv.slice(i)];
    const [name = "", ...rest] = arg.split("=");
    if (arg === "-") out.push(`${MARK}-`);
    else if (plain.has(arg)) out.push(arg.startsWith("--no-") ? arg : `${arg}=true`);
    else if (plain.has(name) && (name.startsWith("--no-") || !/^(?:true|false)$/.test(rest.join("="))))
      throw usage(`${name} takes no value`);
    else if (!valued.has(name)) {
      if (arg.startsWith("-") && !plain.has(name) && !HELP.has(arg))
        throw usage(`${name} is no option of relay ${command}${didYouMean(name, [...valued, ...plain])}`);
      out.push(arg);
    } else if (rest.length > 0) out.push(`${name}=${MARK}${rest.join("=")}`);
    else if (isValue(argv[i + 1])) out.push(`${name}=${MARK}${argv[++i]}`);
    else out.push(name);
  }
  return out;
}

const HELP: ReadonlySet<string> = new Set(["--help", "-h"]);
const MARK = "\u0001";
const isValue = (arg: string | undefined): arg is string =>
  arg !== undefined && (/^-(?:\d|$)/.test(arg) || !arg.startsWith("-"));
const unmark = (value: unknown): unknown =>
  typeof value === "string" && value.startsWith(MARK) ? value.slice(1) : value;

/**
 * A mistake of the command line, as cac or the command found it, with the way to its help. Other errors stay as they are.
 * @param name the command's words
 */
function usageError(error: unknown, { usage: line }: Command, name: string): unknown {
  if (error instanceof UsageError) return said(error.message);
  if (!(error instanceof Error) || error.name !== "CACError") return error;
  const { message } = error;
  const quoted = [...message.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => text.replaceAll("\u0001", ""));
  if (message.startsWith("Unused args")) return said(`${quoted.join(" ")} is too much: the command is relay ${line}`);
  if (message.startsWith("missing required args")) return said(`an argument is missing: the command is relay ${line}`);
  return said(`${quoted[0]?.split(" ")[0] ?? ""} needs a value`);

  function said(text: string): ExitError {
    return usage(`${text}\nSee relay ${name} --help`);
  }
}

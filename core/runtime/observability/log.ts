/**
 * The log: JSON lines on stderr (stdout belongs to the data that a command prints), readable lines on a terminal.
 *
 * The stream is pino's. The line is put together here: with twelve fields and its writing it costs 0.6 µs of CPU so,
 * against 2.5 µs through pino's own serialiser, and there are two lines to each event.
 */
import { openSync } from "node:fs";
import { pino } from "pino";
import { isoTime } from "../../model/time.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, LogFields } from "../../ports/plugin.ts";
import { systemClock } from "../clock.ts";
import { LOG_FIELDS, MAX_FIELD } from "./log-fields.ts";

const LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LEVELS)[number];

export interface LogOptions {
  /** File descriptor or file. @default 2 */
  readonly dest?: number | string;
  /** Lines for people instead of JSON. @default whether stderr is a terminal */
  readonly readable?: boolean;
  /** @default the system's */
  readonly clock?: Clock;
}

export interface RelayLog extends Log {
  /** Changes the level from here on. */
  setLevel(level: LogLevel): void;
  /** Resolves when all lines so far are written. Lines are written at the latest after 100 ms, and when the process exits. */
  flush(): Promise<void>;
  /** Lines lost so far because nobody read the log fast enough. */
  dropped(): number;
}

/** A stuck reader of the log must neither stall the relay nor fill its memory: beyond this many bytes lines are dropped. */
const MOST_WAITING = 4 * 1024 * 1024;
/** Written in blocks of this many characters, so that a line is not a system call. */
const BLOCK = 65_536;
/** Characters that are gathered at most, though the turn goes on. */
const MOST_GATHERED = 1024 * 1024;
/** Longest that a line waits for its block, ms. */
const LONGEST_WAIT_MS = 100;

/** Writes out what waits. Those that have nothing waiting are not held here. */
const waiting = new Set<() => void>();
process.once("exit", () => {
  for (const write of waiting) write();
});

export function createLog(level: LogLevel = "info", options: LogOptions = {}): RelayLog {
  const stream = pino.destination({
    // Opened here and now: what is written before an asynchronous open is lost when the process exits.
    dest: typeof options.dest === "string" ? openSync(options.dest, "a", 0o600) : (options.dest ?? 2),
    sync: false,
    // Written at once; with 0 a flush would not wait for it.
    minLength: 1,
    maxWrite: BLOCK,
    maxLength: MOST_WAITING,
  });
  const { clock = systemClock() } = options;
  let broken = false;
  let dropped = 0;
  stream.on("drop", (block: string) => (dropped += block.split("\n").length - 1));
  // Nobody is left to be told: the relay goes on without its log.
  stream.on("error", () => (broken = true));
  const readable = options.readable ?? (options.dest === undefined && process.stderr.isTTY === true);
  let from = LEVELS.indexOf(level);

  // Gathered here and not in the stream, which measures all that waits anew with each line: 39 KB of copies a line.
  let block = "";
  let ticking = false;
  /** It is full, and goes at the end of this turn. */
  let passing = false;

  /** Here all of them are masked: a line by itself would have to be copied together first. */
  function pass(): void {
    waiting.delete(exiting);
    const all = block;
    block = "";
    if (all !== "" && !broken) stream.write(masked(all));
  }

  function exiting(): void {
    pass();
    try {
      // Not behind a block that is being written just now: none is lost, but that one may come last.
      stream.flushSync();
    } catch {} // Nobody reads it any more.
  }

  async function tick(): Promise<void> {
    ticking = true;
    await clock.sleep(clock.now() + LONGEST_WAIT_MS);
    ticking = false;
    pass();
  }

  function add(line: string): void {
    block += line;
    waiting.add(exiting);
    if (block.length >= MOST_GATHERED) return pass();
    // Not in the middle of a turn: what is being written at an exit cannot be waited for, and would come last.
    if (block.length >= BLOCK && !passing) {
      passing = true;
      setImmediate(() => {
        passing = false;
        pass();
      });
    }
    if (!ticking) void tick();
  }

  const write = (at: (typeof LEVELS)[number]) => {
    const rank = LEVELS.indexOf(at);
    return (message: string, fields?: LogFields): void => {
      if (rank < from || broken) return;
      const time = isoTime(clock.now());
      add(readable ? forPeople(time, at, message, fields) : json(time, at, message, fields));
    };
  };
  return {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    setLevel: (next) => void (from = LEVELS.indexOf(next)),
    async flush() {
      pass();
      // An error means that the reader has gone: there is nothing left to wait for.
      if (!broken) await new Promise<void>((resolve) => stream.flush(() => resolve()));
    },
    dropped: () => dropped,
  };
}

const SECRET = /whsec_[\w+/=-]*|Bearer +[^\s"]+|eyJ[\w-]+\.[\w-]+\.[\w-]*/g;

/** Masks what looks like a secret in any line. The cheap tests come first: nearly no block has one. */
const masked = (lines: string): string =>
  lines.includes("whsec_") || lines.includes("Bearer") || lines.includes("eyJ")
    ? lines.replace(SECRET, "[masked]")
    : lines;

type Value = string | number | boolean;

/** What a field's value is written as: cut to size. A query of a URL may carry a token. */
function cut(name: string, value: Value): Value {
  if (typeof value !== "string") return value;
  const text = name === "url" ? value.replace(/[?#].*$/s, "") : value;
  return text.length > MAX_FIELD ? `${text.slice(0, MAX_FIELD)}…` : text;
}

/** Names that may not be written: their values are left out. */
function omitted(fields: LogFields | undefined): string | undefined {
  let names = "";
  for (const name in fields) {
    if (fields[name] !== undefined && !LOG_FIELDS.has(name)) names += names === "" ? name : ` ${name}`;
  }
  return names === "" ? undefined : names.slice(0, MAX_FIELD);
}

/** Text that stands in JSON as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** JSON, by the shortest way. */
function quoted(value: Value): string {
  if (typeof value === "string") return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value);
  return typeof value === "boolean" || Number.isFinite(value) ? String(value) : "null";
}

/** What stands before a field's value, as it follows a text, whose quote is still to come, or anything else. */
interface Joint {
  /** Ends with the quote of a text. */
  readonly toText: string;
  readonly toOther: string;
}
type Joints = ReadonlyMap<string, Joint>;
const joints = (end: string): Joints =>
  new Map([...LOG_FIELDS].map((name) => [name, { toText: `${end},"${name}":"`, toOther: `${end},"${name}":` }]));
const AFTER_TEXT = joints('"');
const AFTER_OTHER = joints("");

/** In as few pieces as can be: each that is joined to a line costs an object, and a line has some twenty. */
function json(time: string, level: string, message: string, fields: LogFields | undefined): string {
  let line = `{"level":"${level}","time":"${time}`;
  let after = AFTER_TEXT;
  let whole = true;
  for (const name in fields) {
    const full = fields[name];
    if (full === undefined) continue;
    const joint = after.get(name);
    if (joint === undefined) {
      whole = false;
      continue;
    }
    const value = cut(name, full);
    if (typeof value === "string" && PLAIN.test(value)) {
      line = line + joint.toText + value;
      after = AFTER_TEXT;
    } else {
      line = line + joint.toOther + quoted(value);
      after = AFTER_OTHER;
    }
  }
  if (after === AFTER_TEXT) line += '"';
  if (!whole) line += `,"omitted":${JSON.stringify(omitted(fields))}`;
  return `${line},"msg":${quoted(cut("msg", message))}}\n`;
}

function forPeople(time: string, level: string, message: string, fields: LogFields | undefined): string {
  // Control characters of a far side never reach the terminal.
  const text = (value: unknown): string => JSON.stringify(value).replace(/^"([\w .:/@+-]*)"$/, "$1");
  let line = `${time.slice(11)} ${level.padEnd(5)} ${text(message)}`;
  for (const name in fields) {
    const value = fields[name];
    if (value !== undefined && LOG_FIELDS.has(name)) line += ` ${name}=${text(cut(name, value))}`;
  }
  const names = omitted(fields);
  return `${line}${names === undefined ? "" : ` omitted=${text(names)}`}\n`;
}

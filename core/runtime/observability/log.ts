/**
 * The log: JSON lines on stderr (stdout belongs to the data that a command prints), readable lines on a terminal.
 *
 * pino makes the lines; `npm run bench -- observers` measures what log and metrics cost together. The lines are gathered
 * in blocks here, so that a line is no system call, and so that a reader which is stuck neither stalls the relay nor fills
 * its memory.
 */
import { openSync } from "node:fs";
import { pino } from "pino";
import { isoTime } from "../../lib/time.ts";
import { within } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Log } from "../../ports/plugin.ts";
import { systemClock } from "../clock.ts";
import { allowedOnly, cut, MAX_FIELD, type Mask } from "./log-fields.ts";

type LogLevel = Plan["log"]["level"];

interface LogOptions {
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
  /** Masks more from here on: `hide` gets blocks of lines, and long texts, and returns them without secrets. */
  hideWith(hide: Mask): void;
  /** Resolves when all lines so far are written, or lost after 1 s. Lines are written within 100 ms. */
  flush(): Promise<void>;
  /** Lines lost so far because nobody read the log fast enough. */
  dropped(): number;
}

/** Beyond this many bytes that wait for a stuck reader, lines are dropped. */
const MOST_WAITING = 4 * 1024 * 1024;
/** Written in blocks of this many characters, so that a line is not a system call. */
const BLOCK = 65_536;
/** Most characters that are gathered, even when the turn goes on. */
const MOST_GATHERED = 1024 * 1024;
/** Longest that a line waits for its block, ms. */
const LONGEST_WAIT_MS = 100;
/** Longest that a flush waits for the reader, ms. */
const LONGEST_FLUSH_MS = 1_000;

/** Write out what waits in each log at the exit of the process; a log whose lines are all written is not in here. */
const waiting = new Set<() => void>();
/** False once the process ends: its end does not wait for a reader that is stuck. */
let retrying = true;
process.once("exit", () => {
  retrying = false;
  for (const write of waiting) write();
});

function writingTo(dest: number | string | undefined): Destination {
  return pino.destination({
    // Opened here and now: what is written before an asynchronous open is lost when the process exits.
    dest: typeof dest === "string" ? openSync(dest, "a", 0o600) : (dest ?? 2),
    sync: false,
    // Written at once; with 0 a flush would not wait for it.
    minLength: 1,
    maxWrite: BLOCK,
    maxLength: MOST_WAITING,
    retryEAGAIN: () => retrying,
  });
}

type Destination = ReturnType<typeof pino.destination>;

/** Gathers lines in blocks: the stream would measure all that waits again with each line, which is 39 KB of copies a line. */
function inBlocks(stream: Destination, clock: Clock, mask: Mask) {
  let broken = false;
  // The reader has gone: the relay goes on without its log. pino would write again at the exit.
  stream.on("error", () => {
    broken = true;
    stream.destroy();
  });
  stream.on("drain", written);
  let block = "";
  let ticking = false;
  /** The block is full and is passed on at the end of this turn. */
  let passing = false;

  /** Passes the block on to the stream, masked as a whole: to mask single lines would copy each of them. */
  function pass(): void {
    const all = block;
    block = "";
    if (all !== "" && !broken) stream.write(mask(all));
    if (broken) waiting.delete(exiting);
  }

  function written(): void {
    if (block === "") waiting.delete(exiting);
  }

  function exiting(): void {
    pass();
    try {
      // It may overtake a block that is being written just now; no line is lost.
      stream.flushSync();
    } catch {
      // Nobody reads it any more.
      stream.destroy();
    }
  }

  async function tick(): Promise<void> {
    ticking = true;
    await clock.sleep(clock.now() + LONGEST_WAIT_MS);
    ticking = false;
    pass();
  }

  function add(line: string): void {
    if (broken) return;
    block += line;
    waiting.add(exiting);
    if (block.length >= MOST_GATHERED) return pass();
    // At the end of the turn: a block that is being written when the process exits cannot be waited for.
    if (block.length >= BLOCK && !passing) {
      passing = true;
      setImmediate(() => {
        passing = false;
        pass();
      });
    }
    if (!ticking) void tick();
  }

  return { add, pass, isBroken: () => broken };
}

export function createLog(level: LogLevel = "info", options: LogOptions = {}): RelayLog {
  const stream = writingTo(options.dest);
  const { clock = systemClock() } = options;
  let hide: Mask | undefined;
  /** Masks what looks like a secret, too. The cheap tests come first: nearly no block has one. */
  function mask(text: string): string {
    const like = text.includes("whsec_") || text.includes("Bearer") || text.includes("eyJ");
    const shown = like ? text.replace(SECRET, "[masked]") : text;
    return hide === undefined ? shown : hide(shown);
  }
  let dropped = 0;
  stream.on("drop", (block: string) => (dropped += block.split("\n").length - 1));
  const { add, pass, isBroken } = inBlocks(stream, clock, mask);
  const readable = options.readable ?? (options.dest === undefined && process.stderr.isTTY === true);
  const logger = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${isoTime(clock.now())}"`,
      formatters: { level: (label) => ({ level: label }), log: allowedOnly(mask) },
    },
    { write: readable ? (line) => add(forPeople(line)) : add },
  );
  const at =
    (name: "debug" | "info" | "warn" | "error"): Log["info"] =>
    (message, fields = {}) =>
      logger[name](fields, message.length > MAX_FIELD ? cut(message, mask) : message);
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    setLevel: (next) => void (logger.level = next),
    hideWith: (given) => void (hide = given),
    async flush() {
      pass();
      // An error means that the reader has gone: there is nothing left to wait for.
      if (!isBroken()) retrying = await within(clock, LONGEST_FLUSH_MS, new Promise((done) => stream.flush(done)));
    },
    dropped: () => dropped,
  };
}

const SECRET = /whsec_[\w+/=-]*|Bearer +[^\s"]+|eyJ[\w-]+\.[\w-]+\.[\w-]*/g;

/** A line for people. Control characters of a far side never reach the terminal. */
function forPeople(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as { level: string; time: string; msg: string };
  const text = (value: unknown): string => JSON.stringify(value).replace(/^"([\w .:/@+-]*)"$/, "$1");
  const about = Object.entries(fields).map(([name, value]) => ` ${name}=${text(value)}`);
  return `${time.slice(11)} ${level.padEnd(5)} ${text(msg)}${about.join("")}\n`;
}

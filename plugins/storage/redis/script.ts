/** Scripts and their arguments: separate ones, or, where they are many or long, all in one. */
import { createHash } from "node:crypto";

/** A script, known to Redis by its hash. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}
export const script = (text: string): Script => ({ text, sha: createHash("sha1").update(text).digest("hex") });

/** An argument that is neither a text nor a number is turned into text when it is sent. */
export type Args = readonly (string | number | { toString(): string })[];

/** As the first argument, it says that the second is a JSON array of all arguments. */
const PACKED = "packed";

/** The start of every script: from here on `ARGV` is what the caller gave, packed or not. */
export const UNPACK = `
local ARGV = ARGV
if ARGV[1] == '${PACKED}' then ARGV = cjson.decode(ARGV[2]) end
`;

/** Returns how large a call is. Above 1 it is sent alone: Redis does that much in some ten milliseconds. */
export function sizeOf(args: Args): number {
  let chars = 0;
  for (const arg of args) chars += typeof arg === "string" ? arg.length : 8;
  return args.length / 10_000 + chars / 1024 ** 2;
}

/**
 * Returns what follows a script in its call: its keys and its arguments. It has two keys, neither of which is ever
 * stored: while a slot moves from one node of a cluster to another, a script of one missing key runs on the new node,
 * which has only a part of the records; a script of two is refused until all of them are there. Measured: a client with
 * 125,000 separate arguments ends with a RangeError, and Redis takes no more than a million; packed they have no limit.
 */
export function scriptArgs(tag: string, args: Args): (string | number)[] {
  const texts = args.map((arg) => (typeof arg === "string" ? arg.toWellFormed() : String(arg)));
  return [2, tag, `${tag}:none`, ...(sizeOf(texts) > 1 ? [PACKED, JSON.stringify(texts)] : texts)];
}

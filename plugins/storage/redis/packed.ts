/** Packs the arguments of a script: separate ones, or, where they are many or long, all in one. */

/** An argument that is neither a text nor a number is turned into text when it is sent. */
export type Args = readonly (string | number | { toString(): string })[];

/** What Redis and its client take in one piece without a noticeable pause: some ten milliseconds of work. */
const MOST_ARGS = 10_000;
const MOST_BYTES = 1024 * 1024;

/** As the first argument, it says that the second is a MessagePack array of all arguments. */
const PACKED = "packed";

/** The start of every script: from here on `ARGV` is what the caller gave, packed or not. */
export const UNPACK = `
local ARGV = ARGV
if ARGV[1] == '${PACKED}' then ARGV = cmsgpack.unpack(ARGV[2]) end
`;

/** The approximate size, in characters, not bytes. */
export interface Size {
  readonly args: number;
  readonly chars: number;
}

export function sizeOf(args: Args): Size {
  let chars = 0;
  for (const arg of args) chars += typeof arg === "string" ? arg.length : 8;
  return { args: args.length, chars };
}

/** Whether a call is too large to be sent together with others. */
export const isLarge = ({ args, chars }: Size): boolean => args > MOST_ARGS || chars > MOST_BYTES;

/**
 * Returns the arguments as they are sent. Measured: a client with 125,000 separate arguments ends with a RangeError,
 * and Redis takes no more than a million; one packed argument has neither limit.
 */
function packedArgs(args: Args): readonly (string | number | Buffer)[] {
  const texts = args.map((arg) => (typeof arg === "object" ? String(arg) : arg) as string | number);
  return isLarge(sizeOf(texts)) ? [PACKED, pack(texts)] : texts;
}

/**
 * Returns what follows a script in its call: its keys and its arguments. It has two keys, neither of which is ever
 * stored: while a slot moves from one node of a cluster to another, a script of one missing key runs on the new node,
 * which has only a part of the records; a script of two is refused until all of them are there.
 */
export const scriptArgs = (tag: string, args: Args): readonly (string | number | Buffer)[] => [
  2,
  tag,
  `${tag}:none`,
  ...packedArgs(args),
];

/** Encodes a MessagePack array of texts. */
function pack(args: Args): Buffer {
  const lengths = new Uint32Array(args.length);
  let size = 5;
  for (const [i, arg] of args.entries()) {
    const length = Buffer.byteLength(String(arg));
    lengths[i] = length;
    size += length + (length < 32 ? 1 : length < 65_536 ? 3 : 5);
  }
  const packed = Buffer.allocUnsafe(size);
  packed[0] = 0xdd;
  packed.writeUInt32BE(args.length, 1);
  let at = 5;
  for (const [i, arg] of args.entries()) {
    const length = lengths[i] as number;
    if (length < 32) packed[at++] = 0xa0 | length;
    else if (length < 65_536) {
      packed[at] = 0xda;
      packed.writeUInt16BE(length, at + 1);
      at += 3;
    } else {
      packed[at] = 0xdb;
      packed.writeUInt32BE(length, at + 1);
      at += 5;
    }
    at += packed.write(String(arg), at);
  }
  return packed;
}

// A subscription under torture: what the world outside knows of it, and the book of all that its receiver was sent.
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import type { Random } from "./random.ts";

/** The longest overlap that a rotation asks for, ms. */
export const LONGEST_OVERLAP_MS = 1_000;

export type Mood = "well" | "failing" | "slow" | "hanging" | "forgetful" | "busy" | "torn" | "wild";
export const MOODS: readonly Mood[] = [
  "well",
  "well",
  "failing",
  "slow",
  "hanging",
  "forgetful",
  "busy",
  "torn",
  "wild",
];

/** One receiver's record of one event. */
export interface Entry {
  /** Of the body, the same each time. */
  readonly sha: string;
  /** Cycles in which it was answered with success. */
  readonly taken: Set<number>;
  /** By cycle and number, `0/1` → when each request arrived, ms of `performance.now()`. */
  readonly requests: Map<string, number[]>;
  /** By cycle and number: the relay hung up when it was read. It had given up before, and its next wait had begun. */
  readonly givenUp: Set<string>;
}

interface Secret {
  readonly text: string;
  /** From then on everything is signed with it, ms of `performance.now()`. */
  readonly from: number;
  /** From then on nothing is. */
  until: number;
  /** When the rotation that ended it was asked for, and when it was answered. */
  rotated?: { readonly from: number; readonly to: number };
}

export interface Subject {
  /** Its path is `/s/<number>`. */
  readonly number: number;
  readonly keyId: string;
  readonly type: string;
  /** Nobody changes it: each event of its type must go there. */
  stable: boolean;
  /** Unknown while the answer to its making is outstanding, or lost. */
  id?: string;
  mood: Mood;
  /** How likely it is hostile when moods change; 0 for one that never changes. */
  moody: number;
  readonly secrets: Secret[];
  /** A making or a rotation was asked for and not answered: there may be a secret that nobody knows. */
  untold: boolean;
  /** When nothing may be sent to it: from the answer that promised so until it was asked for again. */
  readonly quiet: { readonly from: number; until: number; readonly why: string }[];
  readonly book: Map<string, Entry>;
}

export function makeSubject(number: number, keyId: string, type: string, stable: boolean): Subject {
  const book = new Map<string, Entry>();
  return { number, keyId, type, stable, mood: "well", moody: 1, secrets: [], untold: true, quiet: [], book };
}

/** Named by an answer: its newest secret, when it was asked for, and when those before it end. */
export function noteSecret(subject: Subject, secret: string, asked: number, othersUntil: number): void {
  const now = performance.now();
  for (const old of subject.secrets) {
    old.until = Math.min(old.until, othersUntil);
    old.rotated ??= { from: asked, to: now };
  }
  subject.secrets.push({ text: secret, from: now, until: Number.POSITIVE_INFINITY });
  subject.untold = false;
}

export const anyMood = (random: Random): Mood => random.pick(MOODS);

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

interface SignatureFault {
  readonly text: string;
  /** The rotation after which the secret should have ended. */
  readonly rotated?: Secret["rotated"];
}

/** Returns the fault of a signature; nothing when it is in order or nobody can tell. */
export function signatureFault(
  { secrets, untold }: Subject,
  body: Uint8Array,
  headers: Headers,
  now: number,
): SignatureFault | undefined {
  if (untold) return undefined;
  const at = Number(headers["webhook-timestamp"]) * 1_000;
  const signs = ({ text }: Secret): boolean =>
    verifyHex(body, headers, text) && verifyStandard(body, headers, text, at);
  const newest = secrets.at(-1);
  if (newest === undefined) return undefined;
  if (!signs(newest)) return newest.from < now ? { text: "is not signed with the secret that is live" } : undefined;
  const ended = secrets.find((old) => old.until < now && signs(old));
  return ended && { text: "is signed with a secret that has ended", rotated: ended.rotated };
}

/** Inflates compressed bodies while they arrive. */
import type { Transform } from "node:stream";
import { createGunzip, createInflate } from "node:zlib";
import { Problem } from "../../model/problem.ts";
import type { ContentCoding } from "../../ports/route.ts";

const INFLATERS: Readonly<Record<ContentCoding, () => Transform>> = { gzip: createGunzip, deflate: createInflate };

/** Bytes that one inflater holds beside what came out of it: zlib's window and state, and the block that it fills. */
export const INFLATER_BYTES = 65_536;

/** Returns a new inflater: of gzip (RFC 1952), or of deflate in its zlib form (RFC 1950). */
export const inflaterOf = (coding: ContentCoding): Transform => INFLATERS[coding]();

export const notInflated = (coding: ContentCoding): Problem =>
  new Problem("INVALID_JSON", `The body is no ${coding}, or was damaged or cut off.`);

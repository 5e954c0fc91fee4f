/**
 * Writes down what a relay says, byte by byte, but for what differs from run to run, and compares it with what it said before.
 * `RELAY_RECORD=write` writes the record anew: read the diff in git before it is committed.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { expect } from "vitest";
import { VERSION } from "../../core/model/version.ts";

/** Title → text. */
export type Record = Map<string, string>;

const FOLDER = new URL("../fixtures/record/", import.meta.url);
const MARK = "=== ";

/** Fails with the texts that differ from those of the file, side by side. */
export function compare(name: string, record: Record): void {
  const file = new URL(name, FOLDER);
  const whole = [...record].map(([title, text]) => `${MARK}${title}\n${text.replace(/\n*$/, "\n")}\n`).join("");
  if (process.env["RELAY_RECORD"] === "write") return writeFileSync(file, whole);
  const before = split(readFileSync(file, "utf8"));
  const now = split(whole);
  const titles = [...new Set([...before.keys(), ...now.keys()])].filter(
    (title) => before.get(title) !== now.get(title),
  );
  const only = (from: Record) => Object.fromEntries(titles.map((title) => [title, from.get(title)?.split("\n")]));
  expect(only(now)).toEqual(only(before));
}

function split(text: string): Record {
  const parts = text.split(new RegExp(`^${MARK}`, "m")).slice(1);
  return new Map(
    parts.map((part) => [part.slice(0, part.indexOf("\n")), part.slice(part.indexOf("\n") + 1).trimEnd()]),
  );
}

const NEAR_MS = 8 * 86_400_000;
const near = (ms: number): boolean => Math.abs(ms - Date.now()) < NEAR_MS;

/** Puts a word in the place of each time, id, port, secret and duration. @param names of ids that are to be told apart */
export function steady(text: string, names: ReadonlyMap<string, string> = new Map()): string {
  let told = text;
  for (const [id, name] of names) told = told.replaceAll(id, `<${name}>`);
  return (
    told
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => (near(Date.parse(time)) ? "<time>" : time))
      .replaceAll(/\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, "<date>")
      .replaceAll(/\b1\d{12}\b/g, (ms) => (near(Number(ms)) ? "<ms>" : ms))
      .replaceAll(/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, "<token>")
      .replaceAll(/\bwhsec_[\w+/=-]+/g, "<secret>")
      .replaceAll(/\b([a-z]{3,4}(?:_test)?)(?:_[0-9a-hjkmnp-tv-z]{26})+(?![0-9a-z])/g, "<$1>")
      .replaceAll(/\b(__Host-relay)=[^;]{20,}/g, "$1=<cookie>")
      .replaceAll(/\b(Max-Age)=43(?:200|1\d\d)\b/g, "$1=<seconds>")
      .replaceAll(/\b[0-7][0-9a-hjkmnp-tv-z]{25}\b/g, "<ordinal>")
      .replaceAll(/\b127\.0\.\d+\.\d+(?::\d+)?/g, (address) =>
        address.includes(":") ? "<address>:<port>" : "<address>",
      )
      // It changes with each word of a page or guide.
      .replaceAll(/^(etag): "[0-9a-f]{12}"/gm, '$1: "<etag>"')
      .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "<uuid>")
      .replaceAll(/"(durationMs|timestamp|retryAfter)":[\d.]+/g, '"$1":"<number>"')
      .replaceAll(/"(nextCursor|kid|x|recoveryCodes)":(?:"[^"]+"|\[[^\]]+\])/g, '"$1":"<changing>"')
      // Of several that end at the same time.
      .replaceAll(/("example":\{"eventId":)"[^"]*"/g, '$1"<one>"')
      .replaceAll(/("lastAttempt":\{"subscriptionId":)"[^"]*"(,"at":"<time>","statusCode":)\d+/g, '$1"<one>"$2"<its>"')
      .replaceAll(/\b(secret=)[A-Z2-7]{16,}/g, "$1<secret>")
      .replaceAll(/^(x-(?:ratelimit|burst)-reset|retry-after): \d+$/gim, "$1: <seconds>")
      .replaceAll(/;t=\d+/g, ";t=<seconds>")
      .replaceAll(/'sha256-[^']+'/g, "'<hash>'")
      .replaceAll(new RegExp(`\\b${VERSION.replaceAll(".", "\\.")}\\b`, "g"), "<version>")
  );
}

/** Lists that are in the order of ids which nobody can foresee. */
const BY_ID: ReadonlySet<string> = new Set(["deliveries", "subscriptionIds", "warnings"]);

/** Brings such lists of a JSON text into the order of their steady texts. */
export function inOrder(text: string): string {
  const sorted = (value: unknown, name = ""): unknown => {
    if (Array.isArray(value)) {
      const all = value.map((one) => sorted(one));
      return BY_ID.has(name) ? all.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) : all;
    }
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([field, one]) => [field, sorted(one, field)]));
  };
  try {
    const value: unknown = JSON.parse(text);
    // Where JSON cannot tell the bytes, they stay as they are.
    return JSON.stringify(value) === text ? JSON.stringify(sorted(value)) : text;
  } catch {
    return text;
  }
}

export interface Asked {
  readonly headers?: Readonly<{ [name: string]: string }>;
  readonly body?: string;
  /** Where the request comes from: limits count by it. */
  readonly from?: string;
  /** Of an answer without end: it is cut off where this first matches. */
  readonly until?: RegExp;
}

/** Sends a request over a socket of its own and resolves to every byte of the answer; a chunked body is put together. */
export function askRaw(url: string, line: string, { headers = {}, body, from, until }: Asked): Promise<string> {
  const { hostname, port, host } = new URL(url);
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const lines = [
    line,
    `Host: ${host}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...length,
  ];
  return new Promise((resolve, reject) => {
    let got = Buffer.alloc(0);
    const socket = connect({ host: hostname, port: Number(port), ...(from !== undefined && { localAddress: from }) });
    socket.write(`${lines.join("\r\n")}\r\n\r\n${body ?? ""}`);
    const done = (): void => {
      socket.destroy();
      resolve(plain(got.toString()));
    };
    socket.on("data", (chunk: Buffer) => {
      got = Buffer.concat([got, chunk]);
      if (until?.test(got.toString()) ?? isWhole(got.toString("latin1"), line)) done();
    });
    socket.on("error", reject);
    socket.on("end", done);
  });
}

function isWhole(text: string, line: string): boolean {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const head = text.slice(0, end);
  if (line.startsWith("HEAD ") || /^HTTP\/1\.1 (?:204|304)/.test(head)) return true;
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (length !== undefined) return text.length >= end + 4 + Number(length);
  return /^transfer-encoding: chunked$/im.test(head) && text.endsWith("\r\n0\r\n\r\n");
}

/** The head in lines, with the length as a word where it is that of the body; an empty line; the body. */
function plain(text: string): string {
  const end = text.indexOf("\r\n\r\n");
  const head = text.slice(0, end).replaceAll("\r\n", "\n");
  const sent = text.slice(end + 4);
  if (/^transfer-encoding: chunked$/im.test(head)) return `${head}\n\n${unchunked(sent)}`;
  const right = new RegExp(`^(content-length): ${Buffer.byteLength(sent)}$`, "im");
  return `${head.replace(right, "$1: <length>")}\n\n${sent}`;
}

function unchunked(text: string): string {
  let left = Buffer.from(text);
  const parts: Buffer[] = [];
  for (;;) {
    const line = left.indexOf("\r\n");
    const size = Number.parseInt(left.toString("latin1", 0, line), 16);
    if (line < 0 || !(size > 0)) return Buffer.concat(parts).toString();
    parts.push(left.subarray(line + 2, line + 2 + size));
    left = left.subarray(line + 4 + size);
  }
}

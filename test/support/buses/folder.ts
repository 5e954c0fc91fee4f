/** A folder of files with a line for each delivery. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toFile } from "../../../plugins/transport/file.ts";
import { atLeast, type Arrived, type BusHarness } from "../bus-laws.ts";

export interface Line {
  readonly at: string;
  readonly messageId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyBase64?: string;
}

/** The whole lines of a file: the last one may be about to be written. */
export const linesOf = (file: string): readonly Line[] =>
  readFileSync(file, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);

function arrivedIn(dir: string, path: string): readonly Arrived[] {
  const files = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) => name.startsWith(`${path}.nd`));
  return files
    .flatMap((name) => linesOf(join(dir, name)))
    .map(({ headers, messageId, body, bodyBase64 = "" }) => ({
      headers,
      messageId,
      body: body === undefined ? Buffer.from(bodyBase64, "base64") : Buffer.from(body),
    }));
}

export const folderBus: BusHarness = {
  system: "a folder",
  make: toFile,
  options: (dir) => ({ name: "bus", dir }),
  everyOption: { name: "bus", dir: "out", maxBytes: 1_024, keep: 1 },
  wrongOptions: [
    [{ name: "Archive/..", dir: " ", maxBytes: 1, keep: 0 }, "name", "dir", "maxBytes", "keep"],
    [{}, "dir"],
  ],
  urls: {
    rule: "1 to 8 parts",
    right: ["a", "deposits.paid", "2026/deposits_paid-x", "a/b/c/d/e/f/g/h"],
    wrong: [
      ...["", "..", "../x", "a/../../x", "a/./b", ".hidden", "a//b", "/etc/passwd", "a%2f..%2fb", "a\\b", "a\0b", "A"],
      ...[
        "a.ndjson",
        "a.ndjson.20260101T000000000Z",
        "a?b",
        "a#b",
        "a/",
        "x".repeat(101),
        Array(9).fill("a").join("/"),
      ],
    ],
  },
  cannot: { between: "a disk that hangs cannot be made here", away: "a folder is made at the start" },
  place: /^200 deposits\/\w+\.ndjson, line at byte \d+$/,
  refused: ["file://bus/taken", /^error taken\.ndjson cannot be a file here \(EISDIR\)$/],
  start() {
    const dir = mkdtempSync(join(tmpdir(), "relay-to-file-"));
    mkdirSync(join(dir, "taken.ndjson"));
    return Promise.resolve({
      at: dir,
      destination: (name: string) => Promise.resolve(`file://bus/deposits/${name}`),
      arrived: (url: string, least: number) => atLeast(least, () => arrivedIn(dir, url.slice("file://bus/".length))),
      [Symbol.asyncDispose]: async () => rmSync(dir, { recursive: true, force: true }),
    });
  },
};

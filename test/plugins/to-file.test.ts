/** The file transport: lines that are on the disk, files that are closed in time, and no way out of the folder. */
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Transport, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { toFile } from "../../plugins/transport/file.ts";
import type { FileOptions } from "../../plugins/transport/file/transport.ts";
import { describeTransport } from "../conformance/transport.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";

interface Line {
  readonly at: string;
  readonly messageId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyBase64?: string;
}

const opened: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "relay-to-file-"));
  opened.push(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

async function transportIn(dir: string, more: Partial<FileOptions> = {}, clock: Clock = systemClock()) {
  const transport = await toFile({ name: "archive", dir: "out", ...more }).setup(pluginContext(clock, dir));
  opened.push(() => transport.dispose());
  return transport;
}

const send = (transport: Transport, path: string, more: Partial<TransportRequest> = {}, signal?: AbortSignal) =>
  transport.send(
    {
      url: `file://archive/${path}`,
      headers: { "webhook-id": "evt_1" },
      body: Buffer.from('{"n":1}'),
      timeoutMs: 10_000,
      subscriptionId: "sub_1",
      keyId: "key_1",
      messageId: "dlv_1_0",
      ...more,
    },
    signal ?? new AbortController().signal,
  );

const linesOf = async (file: string): Promise<Line[]> =>
  (await readFile(file, "utf8"))
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);

describe("the law of transports", () => {
  const hangs = "a disk that hangs cannot be made here";
  describeTransport(it, {
    cannot: {
      status: "a file answers nothing",
      hang: hangs,
      drip: "a file answers nothing",
      garble: "a file answers nothing",
      cut: "a file has no connection",
    },
    async open() {
      const dir = await mkdtemp(join(tmpdir(), "relay-to-file-"));
      await mkdir(join(dir, "out/taken.ndjson"), { recursive: true });
      const transport = await toFile({ name: "archive", dir: "out" }).setup(pluginContext(systemClock(), dir));
      return {
        transport,
        url: "file://archive/deposits/paid",
        nowhere: "file://archive/taken",
        far: () => undefined,
        async arrived() {
          const lines = await linesOf(join(dir, "out/deposits/paid.ndjson"));
          return lines.map(({ headers, body, bodyBase64 }) => ({
            headers,
            body: body === undefined ? Buffer.from(bodyBase64 ?? "", "base64") : Buffer.from(body),
          }));
        },
        async [Symbol.asyncDispose]() {
          await transport.dispose();
          await rm(dir, { recursive: true, force: true });
        },
      };
    },
  });
});

describe("a delivery to a file", () => {
  it("is one line with the headers as they are and the body as it was signed", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    const headers = { "Content-Type": "application/json", "webhook-id": "evt_1", "webhook-signature": "v1,abc=" };
    const reply = await send(transport, "deposits/paid", { headers, body: Buffer.from('{ "é": "\\u00e9" }') });
    expect(reply).toMatchObject({ kind: "response", status: 200 });
    expect(await linesOf(join(dir, "out/deposits/paid.ndjson"))).toEqual([
      { at: expect.any(String) as string, messageId: "dlv_1_0", headers, body: '{ "é": "\\u00e9" }' },
    ]);
  });

  it("names its place in the reply", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    const replies = await Promise.all([send(transport, "a"), send(transport, "a")]);
    const { size } = await stat(join(dir, "out/a.ndjson"));
    const texts = replies.map((reply) => (reply.kind === "response" ? Buffer.from(reply.excerpt).toString() : ""));
    expect(texts).toEqual(["a.ndjson, line at byte 0", `a.ndjson, line at byte ${size / 2}`]);
  });

  it("is written whole among a hundred others of the same moment", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    const body = Buffer.from(JSON.stringify({ text: "x".repeat(50_000) }));
    await Promise.all(Array.from({ length: 100 }, (_, n) => send(transport, "big", { body, messageId: `dlv_${n}_0` })));
    const lines = await linesOf(join(dir, "out/big.ndjson"));
    expect(new Set(lines.map(({ messageId }) => messageId)).size).toBe(100);
  });

  it("is not written any more when its caller gave up before its turn", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    const control = new AbortController();
    const sending = send(transport, "a", {}, control.signal);
    control.abort(new Error("deleted"));
    await expect(sending).rejects.toThrow("deleted");
    await send(transport, "a", { messageId: "dlv_2_0" });
    expect((await linesOf(join(dir, "out/a.ndjson"))).map(({ messageId }) => messageId)).toEqual(["dlv_2_0"]);
  });
});

describe("a file", () => {
  it("is closed when it would grow too large, and the oldest closed ones are removed", async () => {
    const dir = await folder();
    const clock = testClock();
    const transport = await transportIn(dir, { maxBytes: 1_024, keep: 2 }, clock);
    const body = Buffer.from(JSON.stringify("x".repeat(600)));
    for (let n = 0; n < 5; n++) await send(transport, "a", { body, messageId: `dlv_${n}_0` });
    const names = (await readdir(join(dir, "out"))).sort();
    expect(names).toHaveLength(3);
    const kept = await Promise.all(names.map((name) => linesOf(join(dir, "out", name))));
    expect(kept.flat().map(({ messageId }) => messageId)).toEqual(["dlv_4_0", "dlv_2_0", "dlv_3_0"]);
  });

  it("does not grow too large by lines that come together", async () => {
    const dir = await folder();
    const transport = await transportIn(dir, { maxBytes: 2_048 });
    const body = Buffer.from(JSON.stringify("x".repeat(600)));
    await Promise.all(Array.from({ length: 20 }, () => send(transport, "a", { body })));
    const names = await readdir(join(dir, "out"));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(dir, "out", name))).size));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_048);
    expect((await Promise.all(names.map((name) => linesOf(join(dir, "out", name))))).flat()).toHaveLength(20);
  });

  it("is closed when a day has ended, UTC", async () => {
    const dir = await folder();
    const clock = testClock();
    const transport = await transportIn(dir, {}, clock);
    await send(transport, "a");
    await clock.advance(86_400_000);
    await send(transport, "a");
    expect((await readdir(join(dir, "out"))).sort()).toEqual([
      "a.ndjson",
      expect.stringMatching(/^a\.ndjson\.\d{8}T\d{9}Z$/) as string,
    ]);
  });

  it("loses the line that a crash cut off, and nothing before it", async () => {
    const dir = await folder();
    const first = await transportIn(dir);
    await send(first, "a/b");
    await first.dispose();
    await appendFile(join(dir, "out/a/b.ndjson"), '{"at":"2026-01-01T00:00:00.000Z","mess');
    await writeFile(join(dir, "out/empty.ndjson"), "no end of a line ".repeat(10_000));
    const second = await transportIn(dir);
    expect(await linesOf(join(dir, "out/a/b.ndjson"))).toHaveLength(1);
    expect((await stat(join(dir, "out/empty.ndjson"))).size).toBe(0);
    await send(second, "a/b");
    expect(await linesOf(join(dir, "out/a/b.ndjson"))).toHaveLength(2);
  });

  it("stays one of few that are open, however many paths there are", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    for (let n = 0; n < 200; n++) await send(transport, `p${n}`);
    const open = await readdir("/proc/self/fd").then((fds) => fds.length);
    expect(open).toBeLessThan(180);
    for (let n = 0; n < 200; n += 50) expect(await send(transport, `p${n}`)).toMatchObject({ status: 200 });
    expect(await linesOf(join(dir, "out/p0.ndjson"))).toHaveLength(2);
  });
});

describe("a disk that takes nothing", () => {
  it("is an absence, which ends with the next line that is written", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    await symlink("/dev/full", join(dir, "out/a.ndjson"));
    expect(await send(transport, "a")).toEqual({ kind: "unavailable", detail: "the connection archive is away" });
    expect(transport.readiness?.()).toBe("cannot write (ENOSPC)");
    await rm(join(dir, "out/a.ndjson"));
    expect(await send(transport, "a")).toMatchObject({ status: 200 });
    expect(transport.readiness?.()).toBeUndefined();
  });
});

describe("a URL", () => {
  it("cannot leave the folder", async () => {
    const dir = await folder();
    const transport = await transportIn(dir);
    for (const path of [
      "..",
      "../x",
      "a/../../x",
      "a/./b",
      ".hidden",
      "a//b",
      "/etc/passwd",
      "a%2f..%2fb",
      "a\\b",
      "a\0b",
      "A",
      "a.ndjson",
      "a.ndjson.20260101T000000000Z",
      "a?b",
      "a#b",
      "",
      "a/",
      "x".repeat(101),
      Array(9).fill("a").join("/"),
    ]) {
      expect(await transport.problems?.(`file://archive/${path}`), path).toMatch(
        /^must be file:\/\/archive\/ and 1 to 8/,
      );
      expect(await send(transport, path), path).toMatchObject({ kind: "error", error: "protocol" });
    }
    expect(await readdir(join(dir, "out"))).toEqual([]);
    for (const path of ["a", "deposits.paid", "2026/deposits_paid-x", "a/b/c/d/e/f/g/h"])
      expect(await transport.problems?.(`file://archive/${path}`), path).toBeUndefined();
  });
});

describe("the options", () => {
  it("are judged before the start", () => {
    const problems = (options: object) => toFile(options as FileOptions).problems?.map(({ path }) => path);
    expect(problems({ name: "archive", dir: "out" })).toEqual([]);
    expect(problems({ name: "Archive/..", dir: " ", maxBytes: 1, keep: 0 })).toEqual([
      "name",
      "dir",
      "maxBytes",
      "keep",
    ]);
    expect(problems({})).toEqual(["name", "dir"]);
  });
});

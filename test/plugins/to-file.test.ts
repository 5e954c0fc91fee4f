/** The file transport: lines that are on the disk, files that are closed in time, and no way out of the folder. */
import { readFileSync } from "node:fs";
import { appendFile, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { toFile } from "../../plugins/transport/file.ts";
import { LineFile } from "../../plugins/transport/file/line-file.ts";
import type { FileOptions } from "../../plugins/transport/file/transport.ts";
import { sendTo } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { folderBus, linesOf } from "../support/buses/folder.ts";
import { testClock } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

describeBus(folderBus);

const folder = testFolders();
const opened: Transport[] = [];
afterEach(async () => {
  for (const transport of opened.splice(0)) await transport.dispose();
});

async function transportIn(dir: string, more: Partial<FileOptions> = {}, clock: Clock = systemClock()) {
  const transport = await toFile({ name: "archive", dir: "out", ...more }).setup(pluginContext(clock, dir));
  opened.push(transport);
  return transport;
}

const send = (transport: Transport, path: string, more: object = {}, signal?: AbortSignal) =>
  sendTo(transport, `file://archive/${path}`, { messageId: "dlv_1_0", ...more }, signal);

describe("a delivery to a file", () => {
  it("names its place in the reply", async () => {
    const dir = folder();
    const transport = await transportIn(dir);
    const replies = await Promise.all([send(transport, "a"), send(transport, "a")]);
    const { size } = await stat(join(dir, "out/a.ndjson"));
    const texts = replies.map((reply) => (reply.kind === "response" ? Buffer.from(reply.excerpt).toString() : ""));
    expect(texts).toEqual(["a.ndjson, line at byte 0", `a.ndjson, line at byte ${size / 2}`]);
  });

  it("is written whole among a hundred others of the same moment", async () => {
    const dir = folder();
    const transport = await transportIn(dir);
    const body = Buffer.from(JSON.stringify({ text: "x".repeat(50_000) }));
    await Promise.all(Array.from({ length: 100 }, (_, n) => send(transport, "big", { body, messageId: `dlv_${n}_0` })));
    const lines = linesOf(join(dir, "out/big.ndjson"));
    expect(new Set(lines.map(({ messageId }) => messageId)).size).toBe(100);
  });

  it("is not written any more when its caller gave up before its turn", async () => {
    const dir = folder();
    const transport = await transportIn(dir);
    const control = new AbortController();
    const sending = send(transport, "a", {}, control.signal);
    control.abort(new Error("deleted"));
    await expect(sending).rejects.toThrow("deleted");
    await send(transport, "a", { messageId: "dlv_2_0" });
    expect(linesOf(join(dir, "out/a.ndjson")).map(({ messageId }) => messageId)).toEqual(["dlv_2_0"]);
  });
  it("is written however soon it comes after those that were just written", async () => {
    const [dir, clock] = [folder(), systemClock()];
    // The next one comes so many turns of the promise queue after the last one is on the disk.
    for (let turns = 0; turns < 8; turns++) {
      const file = new LineFile(`after-${turns}`, { dir, maxBytes: 1_000, keep: undefined, clock });
      await file.append(Buffer.from("1\n"), () => false);
      for (let i = 0; i < turns; i++) await Promise.resolve();
      const second = file.append(Buffer.from("2\n"), () => false);
      await Promise.race([second, clock.sleep(clock.now() + 1_000)]);
      await file.close();
      expect(readFileSync(join(dir, `after-${turns}.ndjson`), "utf8"), `${turns} turns after`).toBe("1\n2\n");
    }
  });
});

describe("a file", () => {
  it("is closed when it would grow too large, and the oldest closed ones are removed", async () => {
    const dir = folder();
    const clock = testClock();
    const transport = await transportIn(dir, { maxBytes: 1_024, keep: 2 }, clock);
    const body = Buffer.from(JSON.stringify("x".repeat(600)));
    for (let n = 0; n < 5; n++) await send(transport, "a", { body, messageId: `dlv_${n}_0` });
    const names = (await readdir(join(dir, "out"))).sort();
    expect(names).toHaveLength(3);
    const kept = names.map((name) => linesOf(join(dir, "out", name)));
    expect(kept.flat().map(({ messageId }) => messageId)).toEqual(["dlv_4_0", "dlv_2_0", "dlv_3_0"]);
  });

  it("does not grow too large by lines that come together", async () => {
    const dir = folder();
    const transport = await transportIn(dir, { maxBytes: 2_048 });
    const body = Buffer.from(JSON.stringify("x".repeat(600)));
    await Promise.all(Array.from({ length: 20 }, () => send(transport, "a", { body })));
    const names = await readdir(join(dir, "out"));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(dir, "out", name))).size));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_048);
    expect(names.flatMap((name) => linesOf(join(dir, "out", name)))).toHaveLength(20);
  });

  it("is closed when a day has ended, UTC", async () => {
    const dir = folder();
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
    const dir = folder();
    const first = await transportIn(dir);
    await send(first, "a/b");
    await first.dispose();
    await appendFile(join(dir, "out/a/b.ndjson"), '{"at":"2026-01-01T00:00:00.000Z","mess');
    await writeFile(join(dir, "out/empty.ndjson"), "no end of a line ".repeat(10_000));
    const second = await transportIn(dir);
    expect(linesOf(join(dir, "out/a/b.ndjson"))).toHaveLength(1);
    expect((await stat(join(dir, "out/empty.ndjson"))).size).toBe(0);
    await send(second, "a/b");
    expect(linesOf(join(dir, "out/a/b.ndjson"))).toHaveLength(2);
  });

  it("stays one of few that are open, however many paths there are", async () => {
    const dir = folder();
    const transport = await transportIn(dir);
    for (let n = 0; n < 200; n++) await send(transport, `p${n}`);
    const open = await readdir("/proc/self/fd").then((fds) => fds.length);
    expect(open).toBeLessThan(180);
    for (let n = 0; n < 200; n += 50) expect(await send(transport, `p${n}`)).toMatchObject({ status: 200 });
    expect(linesOf(join(dir, "out/p0.ndjson"))).toHaveLength(2);
  });
});

describe("a disk that takes nothing", () => {
  it("is an absence, which ends with the next line that is written", async () => {
    const dir = folder();
    const transport = await transportIn(dir);
    await symlink("/dev/full", join(dir, "out/a.ndjson"));
    expect(await send(transport, "a")).toEqual({ kind: "unavailable", detail: "the connection archive is away" });
    expect(transport.readiness?.()).toBe("cannot write (ENOSPC)");
    await rm(join(dir, "out/a.ndjson"));
    expect(await send(transport, "a")).toMatchObject({ status: 200 });
    expect(transport.readiness?.()).toBeUndefined();
  });
});

// A 202 means that it is on disk: what the kernel was asked for by a whole relay, call by call.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { until } from "../support/until.ts";

const folder = testFolder();
const CALLS = "trace=pwrite64,pwritev,fsync,fdatasync,write,writev,sendto,sendmsg";
const event = (id: string) => ({ type: "deposit:paid", keyId: "key_1", id, data: { n: 1 } });

interface Call {
  readonly name: string;
  readonly args: string;
  /** Line on which it began, and on which it was over. */
  readonly began: number;
  readonly ended: number;
}

/** The calls of a trace, with those that strace tells in two parts put together. */
function calls(trace: string): readonly Call[] {
  const open = new Map<string, { readonly text: string; readonly began: number }>();
  const found: Call[] = [];
  for (const [line, text] of trace.split("\n").entries()) {
    const [, pid = "", rest = ""] = /^(\d+)\s+(.*)$/.exec(text) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest);
    if (rest.endsWith("<unfinished ...>")) {
      open.set(pid, { text: rest.slice(0, -"<unfinished ...>".length), began: line });
      continue;
    }
    const first = resumed === null ? undefined : open.get(pid);
    const whole = (first?.text ?? "") + (resumed?.[1] ?? rest);
    const [, name = "", args = "", result = ""] = /^(\w+)\((.*)\)\s+= (-?\d+)/.exec(whole) ?? [];
    if (name !== "" && !result.startsWith("-")) found.push({ name, args, began: first?.began ?? line, ended: line });
  }
  return found;
}

const isSync = ({ name, args }: Call): boolean => name.endsWith("sync") && args.includes("-wal>");
const isWrite = ({ name, args }: Call): boolean => name.startsWith("pwrite") && args.includes("-wal>");
const isAnswer = ({ name, args }: Call): boolean => !name.startsWith("pwrite") && args.includes("HTTP/1.1 202");

describe("a publisher's 202", () => {
  it("is written only after a sync that began behind the last write of its commit was over", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    const trace = join(folder, "trace");
    await using receiver = await startReceiver();
    await using relay = await startChild(folder, {
      under: ["strace", "-D", "-f", "-y", "-qq", "-s", "5000", "-o", trace, "-e", CALLS],
    });
    // One after another, with nobody to deliver to: nothing else is written meanwhile.
    for (let n = 0; n < 20; n++) expect((await relay.publish(event(`alone:${n}`))).status).toBe(202);
    await relay.subscribe(receiver.url());
    // Many at once, while results of deliveries are written too.
    const busy = Array.from({ length: 60 }, (_, n) => `busy:${n}`);
    await Promise.all(
      busy.map((id) =>
        // A slow machine refuses some of them for a while.
        until(async () => {
          const { status } = await relay.publish(event(id));
          expect([202, 429]).toContain(status);
          return status === 202;
        }),
      ),
    );
    await receiver.waitFor(60, 20_000);
    relay.running.kill("SIGTERM");
    await relay.running.ended;

    const all = calls(readFileSync(trace, "utf8"));
    const syncs = all.filter(isSync);
    const writes = all.filter(isWrite);
    const answers = all.filter(isAnswer);
    expect(answers).toHaveLength(80);
    for (const answer of answers) {
      const [, id = ""] = /\\"id\\":\\"([a-z]+:\d+)\\"/.exec(answer.args) ?? [];
      // Later commits write the same page again: what counts is the first time that the event is in one.
      const own = writes.filter(({ args }) => args.includes(`\\"id\\":\\"${id}\\"`));
      expect(own, `no write of ${id}`).not.toHaveLength(0);
      const last = id.startsWith("alone") ? writes.findLast((write) => write.began < answer.began) : own[0];
      const between = syncs.filter((sync) => sync.began > (last?.ended ?? 0) && sync.ended < answer.began);
      expect(between.length, `no completed sync between the last write of ${id} and its 202`).toBeGreaterThan(0);
    }
  });
});

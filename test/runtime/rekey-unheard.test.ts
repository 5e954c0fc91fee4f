/** A rekey that ended while nobody waited is not the answer to the next one. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { Rekey, ownMasterKey } from "../../core/runtime/keys/rekey.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";
import { until } from "../support/until.ts";

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");

describe("a second rekey", () => {
  const changes = {
    "after the end of the first one, which nobody heard": (done: () => boolean) => until(done),
    // The first run still has a folder to sync: the second caller joins it.
    "at the very end of the first one": async (done: () => boolean) => {
      while (!done()) await new Promise((turn) => void setImmediate(turn));
    },
  };
  it.each(Object.entries(changes))("is carried out %s", async (_, wait) => {
    const dataDir = testFolder();
    const clock = systemClock();
    const file = (name: string): string => join(dataDir, "keys", name);
    mkdirSync(join(dataDir, "keys"));
    writeFileSync(file("master"), key(1));
    const storage = await memory().setup(pluginContext(clock, dataDir));
    const keys = makeKeys({ master: key(1), signing: key(9), publishToken: "x" });
    await ownMasterKey(storage, keys, quietLog());
    const actor = { sub: "op", ip: "127.0.0.1" } as never;
    const rekey = new Rekey({ keys, storage, auth: {}, clock, log: quietLog(), dataDir, settleMs: 100, waitMs: 20 });

    // The first: its client gets "running" and is gone (Ctrl-C, a lost connection).
    writeFileSync(file("master.next"), key(2));
    expect((await rekey.run(actor)).state).toBe("running");
    await wait(() => readFileSync(file("master"), "utf8").trim() === key(2) && !existsSync(file("master.next")));

    // In the same process, perhaps months later: key 2 has leaked, and the operator asks for another one.
    writeFileSync(file("master.next"), key(3));
    const answers = [await rekey.run(actor)];
    while (answers.at(-1)?.state === "running") answers.push(await rekey.run(actor));
    expect(answers.at(-1)?.state).toBe("done");
    // The command now prints "all is sealed by the relay's present master key".
    expect(readFileSync(file("master"), "utf8").trim()).toBe(key(3));
    expect(existsSync(file("master.next"))).toBe(false);
  });
});

describe("a rekey under way", () => {
  it("holds up no stop, though the auth plug-in never says that its secrets are sealed", async () => {
    const clock = systemClock();
    const dataDir = testFolder();
    const storage = await memory().setup(pluginContext(clock, dataDir));
    const keys = makeKeys({ master: key(1), signing: key(9), publishToken: "x" });
    const auth = { reseal: () => new Promise<number>(() => undefined) };
    const rekey = new Rekey({ keys, storage, auth, clock, log: quietLog(), dataDir, settleMs: 1, waitMs: 1 });
    expect((await rekey.run({ sub: "op" })).state).toBe("running");
    await rekey.stop();
  });
});

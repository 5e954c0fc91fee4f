// The next master key in a process with several threads: nothing is sealed with it before each of them holds it.
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { adoptEverywhere } from "../../core/runtime/keys/adopt-everywhere.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { testFolder } from "../support/folder.ts";
import { useTwoNodes } from "../support/hosted-storage.ts";

const twoNodes = useTwoNodes();
const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
const keys = (master: string) => makeKeys({ master, signing: key(9), publishToken: "token" });
const [present, next] = [key(1), key(2)];

function dataDir(): { readonly dir: string; readonly file: (name: string) => string } {
  const dir = testFolder();
  mkdirSync(join(dir, "keys"));
  const file = (name: string): string => join(dir, "keys", name);
  writeFileSync(file("master"), present);
  return { dir, file };
}

describe("the next master key", () => {
  it("is held by every thread when one asks for it", async () => {
    const { one, two } = await twoNodes();
    const { dir, file } = dataDir();
    const [ofOne, ofTwo] = [keys(present), keys(present)];
    const ask = await adoptEverywhere(ofOne, one, dir);
    await adoptEverywhere(ofTwo, two, dir);
    writeFileSync(file("master.next"), next);
    await ask();
    expect(ofTwo.masterFingerprint).toBe(keys(next).masterFingerprint);
  });

  it.for(["master.next", "master"])(
    "is held by a thread that was starting when it was asked for: in %s",
    async (name) => {
      const { one, two } = await twoNodes();
      const { dir, file } = dataDir();
      const starting = keys(present);
      const ask = await adoptEverywhere(keys(present), one, dir);
      writeFileSync(file("master.next"), next);
      await ask();
      if (name === "master") renameSync(file("master.next"), file(name));
      await adoptEverywhere(starting, two, dir);
      expect(starting.masterFingerprint).toBe(keys(next).masterFingerprint);
    },
  );

  it("is not taken for held by a thread that cannot read it", async () => {
    const { one, two } = await twoNodes();
    const [here, there] = [dataDir(), dataDir()];
    const ask = await adoptEverywhere(keys(present), one, here.dir);
    await adoptEverywhere(keys(present), two, there.dir);
    mkdirSync(there.file("master.next"));
    await expect(ask()).rejects.toMatchObject({ fault: "unavailable" });
  });
});

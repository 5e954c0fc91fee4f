/** Ed25519 signatures of a whole relay: the key file, what is published, what receivers verify, a new key. */
import { existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifyEd25519, verifyStandard } from "../../core/signing/verify.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import type { Received, Receiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import type { TestRelay } from "../support/relay.ts";

const root = testFolder();
const KEYS = "/.well-known/relay-keys";

const folderOf = (name: string): string => {
  const folder = join(root, name);
  mkdirSync(folder);
  return folder;
};

async function deliver(relay: TestRelay, receiver: Receiver): Promise<Received> {
  const before = receiver.requests.length;
  await relay.publish({ type: "a:b", keyId: "key_1", data: before });
  return (await receiver.waitFor(before + 1)).at(-1) as Received;
}

const published = async (relay: TestRelay): Promise<readonly string[]> => {
  const got = await relay.call("GET", KEYS, { token: null });
  expect([got.status, got.headers["content-type"]]).toEqual([200, "application/jwk-set+json"]);
  expect(got.text).not.toContain('"d"');
  return (got.json.keys as { whpk: string }[]).map(({ whpk }) => whpk);
};

describe("signature: { ed25519: true }", () => {
  it("signs with a key that is made once, and goes on with both keys while it is changed", async () => {
    await using receiver = await startReceiver();
    const folder = folderOf("rotated");
    const file = (name: string): string => join(folder, "keys", name);
    const start = () => startRelay({ signature: { ed25519: true } }, folder);
    let first: readonly string[];
    let secret: string;
    {
      await using relay = await start();
      ({ secret } = await relay.subscribe(receiver.url()));
      first = await published(relay);
      expect(first).toHaveLength(1);
      expect(statSync(file("webhook")).mode & 0o777).toBe(0o600);
      const got = await deliver(relay, receiver);
      expect(verifyEd25519(got.body, got.headers, first)).toBe(true);
      expect(verifyStandard(got.body, got.headers, secret)).toBe(true);
    }
    renameSync(file("webhook"), file("webhook.old"));
    {
      await using relay = await start();
      const both = await published(relay);
      expect(both).toEqual([expect.stringMatching(/^whpk_/), ...first]);
      const got = await deliver(relay, receiver);
      for (const keys of [first, both.slice(0, 1), both]) expect(verifyEd25519(got.body, got.headers, keys)).toBe(true);
    }
    rmSync(file("webhook.old"));
    await using relay = await start();
    const got = await deliver(relay, receiver);
    expect(verifyEd25519(got.body, got.headers, first)).toBe(false);
    expect(verifyEd25519(got.body, got.headers, await published(relay))).toBe(true);
  });

  it("makes neither key nor route where it is not asked for", async () => {
    await using receiver = await startReceiver();
    const folder = folderOf("plain");
    await using relay = await startRelay({}, folder);
    await relay.subscribe(receiver.url());
    expect((await deliver(relay, receiver)).headers["webhook-signature"]).not.toContain("v1a");
    expect((await relay.call("GET", KEYS, { token: null })).status).toBe(404);
    expect(existsSync(join(folder, "keys", "webhook"))).toBe(false);
  });

  it("does not start with a damaged key", async () => {
    const folder = folderOf("damaged");
    mkdirSync(join(folder, "keys"));
    writeFileSync(join(folder, "keys", "webhook"), "nonsense\n");
    await expect(startRelay({ signature: { ed25519: true } }, folder)).rejects.toMatchObject({ exitCode: 78 });
  });
});

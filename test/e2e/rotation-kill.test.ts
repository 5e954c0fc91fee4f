// A rotation is cut off at each of its writes: what the receiver holds is good afterwards, whether it heard of it or not.
import { describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { inject } from "../support/injected.ts";
import { needs } from "../support/needs.ts";
import { startReceiver, type Received, type Receiver } from "../support/receiver.ts";

const hooks = "/api-keys/key_1/webhooks";

async function ping(relay: ChildRelay, receiver: Receiver, id: string): Promise<Received> {
  const got = await relay.call("POST", `${hooks}/${id}/test`);
  expect([got.status, got.json.data.statusCode]).toEqual([200, 200]);
  return receiver.requests.at(-1) as Received;
}
const good = ({ body, headers }: Received, secret: string): boolean =>
  verifyHex(body, headers, secret) && verifyStandard(body, headers, secret);

describe("a rotation that is killed", () => {
  it.for([
    ["before its commit is on disk", "signal=SIGKILL:when=1"],
    ["after its commit, before its answer", "delay_exit=5000000:when=1"],
    ["by a disk that fails", "error=EIO:when=1"],
  ] as const)("%s leaves a secret that the receiver has", async ([, fault], { skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver();
    const folder = testFolder();
    await using first = await startChild(folder);
    const made = (await first.call("POST", hooks, { url: receiver.url(), events: ["*"] })).json.data;
    let answer: { status: number; json: { data?: { secret: string } } } | undefined;
    {
      await using injected = await inject(first.pid, fault);
      const rotating = first.call("POST", `${hooks}/${made.id}/rotate-secret`).catch(() => undefined);
      if (fault.startsWith("delay")) {
        await injected.delayed;
        await first.kill();
      }
      answer = await rotating;
    }
    await first.kill();
    await using second = await startChild(folder);
    const held = answer?.status === 200 ? (answer.json.data?.secret as string) : (made.secret as string);
    expect(good(await ping(second, receiver, made.id as string), held)).toBe(true);
    const again = await second.call("POST", `${hooks}/${made.id}/rotate-secret`);
    expect(again.status).toBe(200);
    expect(good(await ping(second, receiver, made.id as string), again.json.data.secret as string)).toBe(true);
  });
});

describe("rotations in a row", () => {
  it("that are cut off anywhere never leave a receiver without a secret", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver();
    const folder = testFolder();
    let held: string | undefined;
    let id = "";
    for (let nth = 1; nth <= 3; nth++) {
      await using relay = await startChild(folder);
      if (held === undefined) {
        const made = (await relay.call("POST", hooks, { url: receiver.url(), events: ["*"] })).json.data;
        [id, held] = [made.id as string, made.secret as string];
      }
      await using _faulty = await inject(relay.pid, `signal=SIGKILL:when=${nth}`);
      for (let i = 0; i < 10; i++) {
        const got = await relay.call("POST", `${hooks}/${id}/rotate-secret`).catch(() => undefined);
        if (got === undefined) break;
        if (got.status === 200) held = got.json.data.secret as string;
      }
      await relay.running.ended;
      await using after = await startChild(folder);
      expect(good(await ping(after, receiver, id), held)).toBe(true);
      held = (await after.call("POST", `${hooks}/${id}/rotate-secret`)).json.data.secret as string;
      expect(good(await ping(after, receiver, id), held)).toBe(true);
    }
  });
});

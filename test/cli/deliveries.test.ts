// Pending deliveries tried and cancelled, and attempts listed, as an operator types them.
import { expect, it } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { runHere } from "../support/command-here.ts";

it("relay events try, cancel and attempts act on pending deliveries, and say what was refused", async () => {
  await using receiver = await startReceiver({ otherwise: 503 });
  await using relay = await startRelay({
    retry: { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 },
  });
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token({ mfa: true }) };
  const run = (...args: string[]) => runHere([...args, "--key", "key_1"], { cwd: relay.dataDir, env });
  await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
  await relay.publish({ type: "a:b", keyId: "key_1", id: "order:1", data: 1 });
  const codes = async (): Promise<readonly number[]> =>
    (JSON.parse((await run("events", "attempts", "--json")).stdout) as { statusCode: number }[]).map(
      ({ statusCode }) => statusCode,
    );
  await expect.poll(codes).toEqual([503]);
  expect(await run("events", "try", "order:1")).toMatchObject({ code: 0 });
  await expect.poll(codes).toEqual([503, 503]);
  const cancelled = await run("events", "cancel", "order:1", "order:2");
  expect(cancelled.code).toBe(1);
  expect(cancelled.stderr).toContain("order:1: 1 cancelled");
  expect(cancelled.stderr).toContain("order:2: No delivery of it is pending. (NOT_PENDING)");
  expect((await run("events", "attempts", "--status-code", "503")).stdout).toContain("order:1");
  expect((await run("events", "attempts", "--error", "dns")).stderr).toContain("no such attempts");
});

// The deliveries of one subscription, as an operator lists them.
import { expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

it("relay subscriptions deliveries lists those of one subscription, by status and in pages", async () => {
  await using receiver = await startReceiver({ otherwise: 410 });
  await using good = await startReceiver();
  await using relay = await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
  const subscribe = async (url: string): Promise<string> =>
    (await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url, events: ["*"] } })).json.data.id;
  const id = await subscribe(good.url());
  const other = await subscribe(receiver.url());
  const list = (one: string, ...args: string[]) =>
    runHere(["subscriptions", "deliveries", one, "--key", "key_1", ...args], { cwd: relay.dataDir, env });
  const none = await list(id);
  expect(none).toEqual({ code: 0, stdout: "", stderr: "relay: no such deliveries\n" });

  await relay.publish({ type: "a:b", keyId: "key_1", id: "order:1", data: 1 });
  await relay.publish({ type: "c:d", keyId: "key_1", id: "order:2", data: 2 });
  await expect.poll(async () => (await list(id, "--status", "delivered")).stdout.split("\n").length).toBe(4);
  const [head, newest, oldest] = (await list(id)).stdout.split("\n");
  expect(head).toMatch(/^EVENT +TYPE +STATUS +ATTEMPTS +LAST RESULT +CHANGED +NEXT ATTEMPT$/);
  expect(newest).toMatch(/^order:2 +c:d +delivered +1 +200 +\d{4}-\d\d-\d\dT\S+Z$/);
  expect(oldest).toMatch(/^order:1 +a:b +delivered +1 +200 +\S+Z$/);
  await expect
    .poll(async () => (await list(other, "--status", "failed")).stdout)
    .toMatch(/^order:1 +a:b +failed \(endpoint_gone\) +1 +410 /m);

  const page = await list(id, "--limit", "1", "--json");
  expect(JSON.parse(page.stdout)).toMatchObject([{ eventId: "order:2", subscriptionId: id }]);
  const cursor = /^relay: there are more: --cursor (\S+)$/m.exec(page.stderr)?.[1] ?? "";
  expect((await list(id, "--limit", "1", "--cursor", cursor)).stdout).toContain("order:1");
  expect(await list(id, "--status", "lost")).toMatchObject({ code: 64, stdout: "" });
  expect(await list("sub_nothing")).toMatchObject({ code: 1, stdout: "" });
});

// `relay mcp`, asked by the client of the official SDK over the pipes of a process, as an assistant asks it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { fileURLToPath } from "node:url";
import { runCommand } from "../support/command.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { testFolder } from "../support/folder.ts";
import { eventually } from "../support/until.ts";

const SECRET = "the-number-of-a-card";
const entry = fileURLToPath(new URL("../../cli/relay.mjs", import.meta.url));

let relay: TestRelay;
let receiver: Receiver;
let id: string;
beforeAll(async () => {
  receiver = await startReceiver({ otherwise: { do: "reply", status: 500, body: `${SECRET}-echoed` } });
  relay = await startRelay({ retry: { attempts: 2, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
  ({ id } = await relay.subscribe(receiver.url()));
  await relay.publish({ type: "order:paid", keyId: "key_1", id: "lost", data: { card: SECRET } });
  await eventually("it has failed", async () => (await relay.event("lost")).status === "failed");
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

/** An assistant with `relay mcp` behind it. */
async function assistant(
  flags: readonly string[] = [],
  claims: Parameters<TestRelay["token"]>[0] = {},
  url = relay.url,
) {
  const token = await relay.token(claims);
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [entry, "mcp", "--url", url, ...flags],
    env: { PATH: process.env["PATH"] ?? "", RELAY_TOKEN: token },
    cwd: testFolder(),
    stderr: "pipe",
  });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  return {
    client,
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call(name: string, input: Record<string, unknown> = {}) {
      const { content, isError = false } = await client.callTool({ name, arguments: input });
      const [{ text }] = content as [{ text: string }];
      return { text, isError: Boolean(isError), json: () => JSON.parse(text) as ReturnType<typeof JSON.parse> };
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}

const at = { keyId: "key_1", eventId: "lost" };

describe("an assistant", () => {
  it("is offered only what changes nothing, unless it is allowed more", async () => {
    await using plain = await assistant();
    const reading = [
      "needs_attention",
      "list_api_keys",
      "list_subscriptions",
      "list_events",
      "show_event",
      "why_failed",
    ];
    expect(await plain.names()).toEqual(reading);
    expect((await plain.client.listTools()).tools.every(({ annotations }) => annotations?.readOnlyHint)).toBe(true);
    expect((await plain.call("replay_event", at)).isError).toBe(true);
    await using more = await assistant(["--allow-changes"]);
    expect(await more.names()).toEqual([...reading, "replay_event", "test_subscription"]);
  });

  it("finds what needs attention, why a delivery failed, and the event with its attempts", async () => {
    await using one = await assistant();
    expect((await one.call("list_api_keys")).json().data).toEqual([{ id: "key_1" }]);
    expect((await one.call("list_subscriptions", { keyId: "key_1" })).json().data).toMatchObject([{ id }]);
    expect((await one.call("list_events", { keyId: "key_1", status: "failed" })).json().data).toMatchObject([
      { id: "lost" },
    ]);
    await using ofKey = await assistant([], { keys: ["key_1"] });
    const asked = [
      [one, {}],
      [one, { keyId: "key_1" }],
      [ofKey, {}],
    ] as const;
    for (const [by, input] of asked)
      expect((await by.call("needs_attention", input)).json().data).toMatchObject([{ subscriptionId: id }]);
    const why = (await one.call("why_failed", { ...at, subscriptionId: id })).json();
    expect(why).toMatchObject({ status: "failed", reason: "exhausted", subscription: { status: "active" } });
    expect(why.attempts.map(({ number, statusCode }: Record<string, unknown>) => [number, statusCode])).toEqual([
      [2, 500],
      [1, 500],
    ]);
    const shown = (await one.call("show_event", at)).json();
    expect(shown).toMatchObject({ id: "lost", status: "failed", deliveries: [{ subscriptionId: id }] });
  });

  it("sees payloads, and what receivers answered, only where it may", async () => {
    const everything = async (one: Awaited<ReturnType<typeof assistant>>): Promise<string> => {
      const inputs = [
        ["needs_attention", {}],
        ["list_events", { keyId: "key_1" }],
        ["show_event", at],
        ["why_failed", { ...at, subscriptionId: id }],
      ] as const;
      let text = "";
      for (const [name, input] of inputs) text += (await one.call(name, input)).text;
      return text;
    };
    await using plain = await assistant();
    expect(await everything(plain)).not.toContain(SECRET);
    await using all = await assistant(["--payloads"]);
    const seen = await everything(all);
    expect(seen).toContain(`"card": "${SECRET}"`);
    expect(seen).toContain(`${SECRET}-echoed`);
  });

  it("replays and tests where it may, with the rights of its token", async () => {
    await using one = await assistant(["--allow-changes"]);
    receiver.answer([], 200);
    expect((await one.call("replay_event", at)).json().data).toEqual({ deliveries: 1 });
    await eventually("it is delivered", async () => (await relay.event("lost")).status === "delivered");
    const test = (await one.call("test_subscription", { keyId: "key_1", subscriptionId: id })).json();
    expect(test).toMatchObject({ statusCode: 200 });
    await using reader = await assistant(["--allow-changes"], { access: "read" });
    expect(await reader.call("replay_event", at)).toMatchObject({
      isError: true,
      text: expect.stringContaining("403 FORBIDDEN"),
    });
    await using other = await assistant([], { keys: ["key_2"] });
    const refused = await other.call("show_event", at);
    expect([refused.isError, refused.text]).toEqual([true, expect.stringContaining("404 NOT_FOUND")]);
    expect((await one.call("show_event", { keyId: "..", eventId: "lost" })).isError).toBe(true);
    expect((await one.call("show_event", { keyId: 7 })).isError).toBe(true);
  });

  it("ends it by closing its stdin, also in the midst of nothing it can read", async () => {
    const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
    const ran = await runCommand(["mcp"], { cwd: testFolder(), env, input: "not json\n{}\n" });
    expect(ran).toMatchObject({ code: 0, stdout: "" });
  });

  it("is told why where the relay is not there", async () => {
    await using one = await assistant([], {}, "http://127.0.0.1:1");
    const { isError, text } = await one.call("list_api_keys");
    expect([isError, text]).toEqual([true, expect.stringContaining("no answer from http://127.0.0.1:1")]);
  });
});

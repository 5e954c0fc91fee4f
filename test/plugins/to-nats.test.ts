/** The NATS transport against a real server with JetStream, which is killed, full and not there. */
import { DiscardPolicy } from "@nats-io/jetstream";
import { expect, it } from "vitest";
import { toNats } from "../../plugins/transport/nats.ts";
import { sendTo, setUp, textOf } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { natsBus } from "../support/buses/nats.ts";
import { startNats } from "../support/nats.ts";

describeBus(natsBus, (stage) => {
  const { open } = stage;

  it("stores a message once, however often the same attempt is made", async () => {
    const transport = await open();
    const once = await sendTo(transport, "nats://bus/deposits.once", { messageId: "dlv_2" });
    const again = await sendTo(transport, "nats://bus/deposits.once", { messageId: "dlv_2" });
    expect(textOf(again)).toBe(`${textOf(once)} (a repeat: it had it before)`);
    expect(await stage.far.arrived("nats://bus/deposits.once", 1)).toHaveLength(1);
  });

  it("keeps a subscriber's headers from commanding the server", async () => {
    const transport = await open();
    const headers = { "nats-rollup": "all", "Nats-Expected-Last-Sequence": "99", "x-own": "1" };
    expect(textOf(await sendTo(transport, "nats://bus/deposits.rolled", { headers }))).toMatch(/^200/);
    const [message] = await stage.far.arrived("nats://bus/deposits.rolled", 1);
    expect(message?.headers).toEqual({ "x-own": "1" });
  });

  it("says of a stream that is full what the stream says", async () => {
    await stage.far.manager.streams.add({ name: "FULL", subjects: ["full"], max_msgs: 1, discard: DiscardPolicy.New });
    const transport = await open();
    await sendTo(transport, "nats://bus/full");
    expect(textOf(await sendTo(transport, "nats://bus/full"))).toBe("error maximum messages exceeded");
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("says of a body that the server does not take that it is too large", async () => {
    const transport = await open();
    const reply = await sendTo(transport, "nats://bus/deposits.big", { body: Buffer.alloc(2_000_000) });
    expect(reply).toMatchObject({ kind: "error", error: "protocol", detail: expect.stringMatching(/max_payload/i) });
  });

  it("is away where JetStream is not", async () => {
    await using bare = await startNats(["--jetstream=false"]);
    const transport = await open({ servers: bare.url });
    expect(await sendTo(transport, "nats://bus/deposits.paid")).toMatchObject({ kind: "unavailable" });
    expect(transport.readiness?.()).toBe("JetStream does not answer");
    await transport.dispose();
  });

  it("logs in with a password or a token", async () => {
    await using guarded = await startNats(["--user", "relay", "--pass", "secret word"]);
    const transport = await open({ servers: guarded.url, user: "relay", password: "secret word" });
    expect(textOf(await sendTo(transport, "nats://bus/a"))).toBe("error no stream takes the subject a");
    const refused = await setUp(toNats({ name: "bus", servers: guarded.url, user: "relay", password: "no" }));
    expect(await sendTo(refused, "nats://bus/a")).toMatchObject({ kind: "unavailable" });
    expect(refused.readiness?.()).toMatch(/^is not connected(?:: |$)/);
    await refused.dispose();
    await transport.dispose();
  });
});

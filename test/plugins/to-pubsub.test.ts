/** The Pub/Sub transport against the fake of Google's Go module: ordering keys, and what the service refuses. */
import { expect, it } from "vitest";
import { sendTo, setUp, textOf } from "../support/bus-bench.ts";
import { pubSubBus } from "../support/buses/pubsub.ts";
import { describeBus } from "../support/bus-laws.ts";
import { toPubSub } from "../../plugins/transport/pubsub.ts";

describeBus(pubSubBus, (stage) => {
  const { open } = stage;

  it("gives messages the ordering key that the option names, and keeps their order", async () => {
    const url = await stage.far.destination("ordered");
    const transport = await open({ key: "data.customer" });
    const body = (customer: string) => Buffer.from(JSON.stringify({ data: { customer } }));
    for (const customer of ["a", "b", "a", "é".repeat(600)])
      expect(textOf(await sendTo(transport, url, { body: body(customer) }))).toMatch(/^200/);
    expect((await stage.far.server.told("ordered")).map(({ OrderingKey }) => OrderingKey)).toEqual([
      ...["a", "b", "a"],
      expect.stringMatching(/^[0-9a-f]{64}$/),
    ]);
  });

  it("sends what comes together at once, and answers each by itself", async () => {
    const url = await stage.far.destination("many");
    const transport = await open();
    const replies = await Promise.all(Array.from({ length: 1_200 }, () => sendTo(transport, url)));
    expect(new Set(replies.map(textOf)).size).toBe(1_200);
    expect(await stage.far.arrived(url, 1_200)).toHaveLength(1_200);
  });

  it.each(["deposits later", "ordered later"])(
    "finds a topic that is made after it was asked for: %s",
    async (which) => {
      const name = which.replace(" ", "-");
      const transport = await open(which.startsWith("ordered") ? { key: "keyId" } : {});
      const send = async (): Promise<string> => textOf(await sendTo(transport, `pubsub://bus/${name}`));
      expect(await send()).toBe(`error the topic ${name} is not there`);
      await stage.far.destination(name);
      expect(await send()).toMatch(/^200/);
      await stage.far.server.client.topic(name).delete();
      expect(await send()).toBe(`error the topic ${name} is not there`);
      expect(transport.readiness?.()).toBeUndefined();
    },
  );
});

it("a transport to Pub/Sub does not start with credentials that are no JSON", async () => {
  const making = setUp(toPubSub({ name: "bus", credentials: "s3cret" }));
  await expect(making).rejects.toThrow("pubsub:bus: credentials must be the JSON key of a service account");
});

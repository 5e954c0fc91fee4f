/** The MQTT transport against a real mosquitto, which is killed, takes few messages at once, and refuses some. */
import { expect, it } from "vitest";
import { sendTo, textOf } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { mqttBus } from "../support/buses/mqtt.ts";

describeBus(mqttBus, (stage) => {
  const { open } = stage;

  it.each([1, 2])("sends no more at once than the broker takes, with quality %i", async (qos) => {
    const transport = await open({ qos });
    const url = `mqtt://bus/deposits/many${qos}`;
    const replies = await Promise.all(Array.from({ length: 300 }, () => sendTo(transport, url)));
    expect(new Set(replies.map(textOf))).toEqual(new Set([`200 topic deposits/many${qos}`]));
    expect(await stage.far.arrived(url, 300)).toHaveLength(300);
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("says of a topic that the relay may not publish to what the broker says", async () => {
    const transport = await open();
    await stage.far.server.deny(["deposits/closed"]);
    const refused = async () => textOf(await sendTo(transport, "mqtt://bus/deposits/closed"));
    await expect.poll(refused).toBe("error Publish error: Not authorized");
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("speaks MQTT 3.1.1, which carries the body alone", async () => {
    const transport = await open({ version: "3.1.1" });
    expect(textOf(await sendTo(transport, "mqtt://bus/deposits/old"))).toBe("200 topic deposits/old");
    const [message] = await stage.far.arrived("mqtt://bus/deposits/old", 1);
    expect(message?.headers).toEqual({});
    expect(Buffer.from(message?.body ?? "").toString()).toContain('"evt_1"');
  });
});

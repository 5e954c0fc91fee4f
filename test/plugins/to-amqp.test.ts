/** The AMQP transport against a real RabbitMQ, which is killed, and which refuses in each of its ways. */
import { expect, it } from "vitest";
import { describeBus } from "../support/bus-laws.ts";
import { sendTo, textOf } from "../support/bus-bench.ts";
import { rabbitBus } from "../support/buses/rabbit.ts";

describeBus(rabbitBus, (stage) => {
  const { open } = stage;

  it("publishes persistent messages", async () => {
    const url = await stage.far.destination("persistent");
    await sendTo(await open(), url);
    expect(await stage.far.arrived(url, 1)).toMatchObject([{ durable: true }]);
  });

  it("says of a message that no queue takes that it will not do, among others that go well", async () => {
    await stage.far.queue("some", "some.key");
    const transport = await open();
    const keys = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? "some.key" : "nobody.wants.this"));
    const replies = await Promise.all(keys.map((key) => sendTo(transport, `amqp://bus/deposits/${key}`)));
    for (const [n, reply] of replies.entries())
      expect(textOf(reply)).toBe(
        n % 2 === 0
          ? "200 exchange deposits, routing key some.key: confirmed"
          : "error no queue takes the routing key nobody.wants.this of the exchange deposits (NO_ROUTE)",
      );
  });

  it("says of an exchange that is not there that it will not do, and harms no other exchange", async () => {
    await stage.far.queue("fine", "fine.key");
    const transport = await open();
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        sendTo(transport, n % 2 === 0 ? "amqp://bus/deposits/fine.key" : "amqp://bus/not-there/key"),
      ),
    );
    for (const [n, reply] of replies.entries()) {
      if (n % 2 === 0) expect(textOf(reply)).toMatch(/^200/);
      else expect(reply).toMatchObject({ kind: "error", error: "protocol" });
    }
    expect(textOf(replies[1]!)).toMatch(/no exchange 'not-there' in vhost/);
    await stage.far.client.exchangeDeclare({ exchange: "not-there", type: "fanout" });
    await stage.far.client.queueBind({ queue: "fine", exchange: "not-there", routingKey: "" });
    expect(textOf(await sendTo(transport, "amqp://bus/not-there"))).toMatch(/^200/);
  });

  it("says of a queue that is full that the broker refused", async () => {
    await stage.far.queue("full", "full.key", { "x-max-length": 1, "x-overflow": "reject-publish" });
    const transport = await open();
    const first = await sendTo(transport, "amqp://bus/deposits/full.key");
    expect(textOf(first)).toMatch(/^200/);
    const second = await sendTo(transport, "amqp://bus/deposits/full.key");
    expect(textOf(second)).toBe("error the broker refused the message: a queue of it is full");
  });
});

// Acknowledgements of one channel: what is sent, and what is kept of it behind a message that stays open.
import type { Channel, ConsumeMessage } from "amqplib";
import { expect, it } from "vitest";
import { createAcknowledger, createStretches } from "../../plugins/source/amqp/acknowledge.ts";

const messages = (from: number, to: number): ConsumeMessage[] =>
  Array.from({ length: to - from + 1 }, (_, i) => ({ fields: { deliveryTag: from + i } }) as ConsumeMessage);

/** A channel that does with its tags what a broker does: a multiple acknowledgement takes all up to its tag. */
function channel(delivered: number) {
  const open = new Set(Array.from({ length: delivered }, (_, i) => i + 1));
  let frames = 0;
  const ack: Channel["ack"] = ({ fields: { deliveryTag } }, all = false) => {
    frames++;
    if (!open.has(deliveryTag)) throw new Error(`unknown delivery tag ${deliveryTag}`);
    for (const tag of all ? [...open].filter((one) => one <= deliveryTag) : [deliveryTag]) open.delete(tag);
  };
  return { ack, open, frames: () => frames };
}

it("many messages are acknowledged with one frame, where none before them is open", () => {
  const { ack, open, frames } = channel(1_000);
  createAcknowledger({ ack }).acknowledge(messages(1, 1_000));
  expect([open.size, frames()]).toEqual([0, 1]);
});

it("a message that stays open is never acknowledged by those behind it, and one frame does again once it is settled", () => {
  const { ack, open, frames } = channel(30);
  const acknowledger = createAcknowledger({ ack });
  const [stuck] = messages(3, 3) as [ConsumeMessage];
  acknowledger.acknowledge([...messages(1, 2), ...messages(4, 10)]);
  acknowledger.acknowledge(messages(11, 20));
  expect([...open]).toEqual([3, ...Array.from({ length: 10 }, (_, i) => 21 + i)]);
  ack(stuck);
  acknowledger.passOver(stuck);
  const before = frames();
  acknowledger.acknowledge(messages(21, 30));
  expect([open.size, frames() - before]).toEqual([0, 1]);
});

it("what is remembered behind a message that stays open does not grow with those that pass it", () => {
  const above = createStretches();
  for (let tag = 2; tag <= 100_000; tag++) above.add(tag);
  expect(above.size).toBe(1);
  // Another one that stays open, and then no longer.
  for (let tag = 100_002; tag <= 200_000; tag++) above.add(tag);
  expect(above.size).toBe(2);
  above.add(100_001);
  expect([above.take(1), above.take(2), above.size]).toEqual([undefined, 200_000, 0]);
});

it("stretches are joined in whatever order their numbers come", () => {
  const above = createStretches();
  for (const one of [5, 3, 9, 4, 7, 8]) above.add(one);
  expect(above.size).toBe(2);
  above.add(6);
  expect([above.take(3), above.size]).toEqual([9, 0]);
});

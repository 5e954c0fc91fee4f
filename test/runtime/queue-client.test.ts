// The queue as a node's thread has it: what it is given goes on, also where its own claim has filled it meanwhile.
import { expect, it } from "vitest";
import type { Lease } from "../../core/ports/storage.ts";
import type { Link } from "../../core/runtime/threads/link.ts";
import { queueClient } from "../../core/runtime/threads/queue-client.ts";
import { due } from "../conformance/queue.ts";
import { testClock } from "../support/clock.ts";

const leaseOf = (sub: string): Lease => ({ ...due(sub, 1, 0), token: `token of ${sub}` });

async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((turned) => setImmediate(turned));
}

it("a lease that a node was given while its claim filled it goes back, and waits for none of its slots", async () => {
  const answer = Promise.withResolvers<readonly Lease[]>();
  const released: unknown[] = [];
  const link: Link = {
    call: async (method, [name], receive) => {
      if (method === "release") released.push(name);
      const answered = method === "claim" ? await answer.promise : undefined;
      receive?.(answered as never);
      return answered as never;
    },
    send: () => undefined,
    end: () => undefined,
  };
  const queue = queueClient({ link, clock: testClock(), heardAt: () => 0 });
  const claiming = queue.port.claim({ limit: 1, perSubscription: 1, busy: new Map() });
  queue.given([leaseOf("given")]);
  await turns();
  answer.resolve([leaseOf("claimed")]);
  expect(await claiming).toMatchObject([{ subscriptionId: "sub_claimed" }]);
  await turns();
  expect(released).toEqual([`sub_given ${leaseOf("given").ordinal}`]);
});

import { expect, it } from "vitest";
import { describeTransport, systemClock, testContext, type FarRequest, type FarSide } from "relaybox/conformance";
import { myBus } from "../src/index.ts";

/** A bus in memory, which does what the laws ask for. */
function memoryBus() {
  const requests: FarRequest[] = [];
  const arrivals = new Set<() => void>();
  let does: FarSide = { do: "answer", status: 200 };
  let gathered = Promise.withResolvers<void>();
  let count = 0;
  return {
    isUp: true,
    far(next: FarSide): void {
      does = next;
      [count, gathered] = [0, Promise.withResolvers()];
    },
    arrived: (wanted: number) =>
      new Promise<readonly FarRequest[]>((resolve) => {
        const look = (): void => void (requests.length >= wanted && resolve(requests));
        arrivals.add(look);
        look();
      }),
    async publish(topic: string, body: Uint8Array, signal: AbortSignal): Promise<void> {
      if (topic === "nowhere") throw new Error("there is no such topic");
      requests.push({ body: Buffer.from(body), headers: {} });
      for (const look of arrivals) look();
      if (does.do === "answer") return;
      if (does.do === "cut") throw new Error("the connection was cut");
      if (does.do === "gather" && ++count >= does.count) gathered.resolve();
      const aborted = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => aborted.reject(signal.reason));
      await Promise.race([gathered.promise, aborted.promise]);
    },
  };
}

async function opened() {
  const bus = memoryBus();
  const plugin = myBus({ name: "main", bus });
  const ctx = await testContext(plugin, { clock: systemClock() });
  return {
    ...{ bus, far: bus.far, arrived: bus.arrived, url: "my-bus://main/orders", nowhere: "my-bus://main/nowhere" },
    transport: await plugin.setup(ctx),
    [Symbol.asyncDispose]: () => ctx[Symbol.asyncDispose](),
  };
}

const bare = "the bus confirms, and says nothing else";
describeTransport(it, { cannot: { headers: bare, status: bare, garble: bare, drip: bare }, open: opened });

it("is unavailable while its bus is away, and ready again when that is back", async () => {
  await using made = await opened();
  const { bus, transport, url } = made;
  const ids = { subscriptionId: "sub_1", keyId: "key_1", messageId: "dlv_1_0" };
  const request = { url, headers: {}, body: Buffer.from("{}"), timeoutMs: 1_000, ...ids };
  bus.isUp = false;
  expect(await transport.send(request, new AbortController().signal)).toMatchObject({ kind: "unavailable" });
  expect(transport.readiness?.()).toBe("the bus is away");
  bus.isUp = true;
  expect(await transport.send(request, new AbortController().signal)).toMatchObject({ kind: "response" });
  expect(transport.readiness?.()).toBeUndefined();
});

it("names what is wrong with its options", () => {
  expect(myBus({ name: "" } as never).problems?.map(({ path }) => path)).toEqual(["name", "bus"]);
});

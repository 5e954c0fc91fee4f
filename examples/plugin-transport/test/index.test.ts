import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { describeTransport, systemClock, testContext, type FarRequest, type FarSide } from "relaybox/conformance";
import { myTransport } from "../src/index.ts";

/** A far side that answers each line as the test has set it to. */
async function farSide() {
  let does: FarSide = { do: "answer", status: 200 };
  const requests: FarRequest[] = [];
  const held: Socket[] = [];
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  const timers = new Set<NodeJS.Timeout>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => undefined);
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      if (!text.endsWith("\n")) return;
      const { headers, body } = JSON.parse(text) as { headers: Record<string, string>; body: string };
      requests.push({ headers, body: Buffer.from(body, "base64") });
      for (const look of waiting) look();
      answer(socket);
    });
  });
  function answer(socket: Socket): void {
    switch (does.do) {
      case "answer":
        return void socket.end(`${does.status} ${does.body ?? ""}\n`);
      case "garble":
        return void socket.end("what?\n");
      case "cut":
        return void socket.destroy();
      case "drip":
        return void timers.add(setInterval(() => void socket.write("2"), 20));
      case "gather":
        held.push(socket);
        if (held.length >= does.count) for (const one of held.splice(0)) one.end("200 \n");
        return;
      case "hang":
        return;
    }
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    far: (next: FarSide) => void (does = next),
    arrived: (count: number) =>
      new Promise<readonly FarRequest[]>((resolve) => {
        const look = (): void => void (requests.length >= count && (waiting.delete(look), resolve(requests)));
        waiting.add(look);
        look();
      }),
    async close() {
      for (const timer of timers) clearInterval(timer);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

describe("the law of the transport port", () => {
  describeTransport(it, {
    cannot: { headers: "the answer of this protocol has no headers" },
    async open() {
      const plugin = myTransport({ tls: false });
      const ctx = await testContext(plugin, { clock: systemClock() });
      const transport = await plugin.setup(ctx);
      const far = await farSide();
      const closed = await farSide();
      await closed.close();
      return {
        transport,
        url: `my-transport://127.0.0.1:${far.port}`,
        nowhere: `my-transport://127.0.0.1:${closed.port}`,
        far: far.far,
        arrived: far.arrived,
        async [Symbol.asyncDispose]() {
          await transport.dispose();
          await far.close();
          await ctx[Symbol.asyncDispose]();
        },
      };
    },
  });
});

describe("my-transport", () => {
  it("names what is wrong with its options", () => {
    expect(myTransport({ tls: "yes" as never }).problems?.map(({ path }) => path)).toEqual(["tls"]);
  });
});

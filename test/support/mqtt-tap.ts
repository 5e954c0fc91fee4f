/** Stands between an MQTT broker and its clients, and counts which messages are acknowledged: a broker does not say. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface MqttTap extends AsyncDisposable {
  readonly port: number;
  /** Numbers (the user property `n`) of the messages that were acknowledged, and not sent again after that. */
  readonly acknowledged: ReadonlySet<string>;
  /** Names of the clients whose subscriptions the broker has confirmed. */
  readonly subscribed: ReadonlySet<string>;
}

export async function mqttTap(target: number): Promise<MqttTap> {
  const [acknowledged, subscribed] = [new Set<string>(), new Set<string>()];
  const pairs = new Set<Socket>();
  const listener = createServer((client) => {
    const server = connect(target, "127.0.0.1");
    /** Numbers by packet id, on this connection. */
    const open = new Map<number, string>();
    let name = "";
    for (const [from, to, seen] of [
      [client, server, answered],
      [server, client, sent],
    ] as const) {
      pairs.add(from.on("close", () => void (pairs.delete(from), to.end())).on("error", () => to.destroy()));
      const read = frames(seen);
      from.on("data", (chunk: Buffer) => {
        read(chunk);
        to.write(chunk);
      });
    }
    function sent(first: number, body: Buffer): void {
      if (first >> 4 === 9) subscribed.add(name);
      if (first >> 4 !== 3 || (first & 6) === 0) return;
      const [, n] = /\0\u0001n\0.(\d+)/s.exec(body.toString("latin1")) ?? [];
      if (n === undefined) return;
      open.set(body.readUInt16BE(2 + body.readUInt16BE(0)), n);
      acknowledged.delete(n);
    }
    function answered(first: number, body: Buffer): void {
      if (first >> 4 === 1) name = /[\w-]{2,}$/.exec(body.toString("latin1"))?.[0] ?? "";
      const n = [4, 5].includes(first >> 4) ? open.get(body.readUInt16BE(0)) : undefined;
      if (n !== undefined) acknowledged.add(n);
    }
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    port: (listener.address() as AddressInfo).port,
    acknowledged,
    subscribed,
    async [Symbol.asyncDispose]() {
      for (const socket of pairs) socket.destroy();
      listener.close();
      await once(listener, "close");
    },
  };
}

/** Calls with the first byte and the body of each packet of a stream. */
function frames(seen: (first: number, body: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      let [length, at, shift] = [0, 1, 0];
      for (; ; at++, shift += 7) {
        const byte = rest[at];
        if (byte === undefined) return;
        length |= (byte & 127) << shift;
        if (byte < 128) break;
      }
      const end = at + 1 + length;
      if (rest.length < end) return;
      seen(rest[0] as number, rest.subarray(at + 1, end));
      rest = rest.subarray(end);
    }
  };
}

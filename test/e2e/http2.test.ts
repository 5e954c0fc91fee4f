/** A whole relay that delivers over HTTP/2: signatures, the end of the receiver and of the relay in mid-stream. */
import type { Http2ServerResponse } from "node:http2";
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "relaybox/verify";
import { filesystem, https } from "../../config/index.ts";
import { testFolder } from "../support/folder.ts";
import { startHttp2Receiver } from "../support/http2-receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const folder = testFolder();

/** The delivery of an event, once it has ended. */
const ended = async (relay: TestRelay, id: string) => {
  for (;;) {
    const { json } = await relay.call("GET", `/api-keys/key_1/events/${id}`);
    if (json.data.status !== "pending") return json.data.deliveries[0];
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

describe("a relay with HTTP/2", () => {
  it("delivers many events over one connection, each with a signature that verifies", async () => {
    await using receiver = await startHttp2Receiver();
    await using relay = await startRelay({ transports: [https({ http2: true })] });
    const { secret } = await relay.subscribe(receiver.url());
    for (let i = 0; i < 10; i++) {
      const batch = Array.from({ length: 20 }, (_, n) => ({ type: "a:b", keyId: "key_1", data: { i, n } }));
      expect((await relay.publish(batch)).status).toBe(202);
    }
    await receiver.until(() => receiver.requests.length === 200);
    for (const { body, headers, version } of receiver.requests) {
      expect(version).toBe("2.0");
      expect(verifyStandard(body, headers, secret)).toBe(true);
      expect(verifyHex(body, headers, secret)).toBe(true);
      expect(verifyStandard(Buffer.concat([body, Buffer.from(" ")]), headers, secret)).toBe(false);
    }
    expect(receiver.connections()).toBe(1);
  });

  it("counts an attempt that a killed receiver cut, and makes the next one", async () => {
    await using receiver = await startHttp2Receiver({
      answer: (_, response, index) => void (index === 0 ? receiver.drop() : response.writeHead(200).end()),
    });
    await using relay = await startRelay({ transports: [https({ http2: true })] });
    await relay.subscribe(receiver.url());
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
    expect(await ended(relay, "one")).toMatchObject({
      status: "delivered",
      attempts: [
        { number: 1, error: "reset" },
        { number: 2, statusCode: 200 },
      ],
    });
  });

  it("gives back what is under way when it stops: the next relay makes the same attempt", async () => {
    const held: Http2ServerResponse[] = [];
    await using receiver = await startHttp2Receiver({
      answer: (_, response, index) => void (index === 0 ? held.push(response) : response.writeHead(200).end()),
    });
    const dataDir = join(folder, "stop");
    mkdirSync(dataDir);
    const config = { storage: filesystem(), transports: [https({ http2: true })] };
    {
      await using first = await startRelay(config, dataDir);
      await first.subscribe(receiver.url());
      await first.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
      await receiver.until(() => held.length === 1);
    }
    await receiver.until(() => receiver.open() === 0);
    await using second = await startRelay(config, dataDir);
    expect(await ended(second, "one")).toMatchObject({
      status: "delivered",
      attempts: [{ number: 1, statusCode: 200 }],
    });
    expect(receiver.requests.map(({ headers }) => headers["x-relay-attempt"])).toEqual(["1", "1"]);
  });
});

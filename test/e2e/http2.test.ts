import { expect, it } from "vitest";
import { verifyHex, verifyStandard } from "relaybox/verify";
import { https } from "../../config/index.ts";
import { startHttp2Receiver } from "../support/http2-receiver.ts";
import { startRelay } from "../support/relay.ts";

it("a relay with HTTP/2 delivers many events over one connection, each with a signature that verifies", async () => {
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

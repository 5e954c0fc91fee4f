import { connect } from "node:net";
import { readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { http, memory, spool, sqlite } from "../../config/index.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

it("a request with two Authorization headers publishes nothing", async () => {
  await using relay = await startRelay({ storage: memory(), sources: [http({ tokens: ["one"] })] });
  const { hostname, port } = new URL(relay.url);
  const socket = connect(Number(port), hostname);
  const body = JSON.stringify({ type: "deposit:paid", keyId: "key_1", data: 1 });
  socket.end(
    `POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer one\r\nAuthorization: Bearer one\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  expect(answer).not.toMatch(/^HTTP\/1\.1 202/);
});

it("a file in the spool is delivered like what is published over HTTP", async () => {
  await using receiver = await startReceiver();
  await using relay = await startRelay({ storage: sqlite(), sources: [http(), spool({ dir: "drop" })] });
  await relay.subscribe(receiver.url("/hook"));
  const dir = join(relay.dataDir, "drop");
  await writeFile(join(dir, ".in"), '{"type":"deposit:paid","keyId":"key_1","data":{ "n":1.0 }}\n');
  await rename(join(dir, ".in"), join(dir, "in.ndjson"));
  await receiver.waitFor(1);
  expect(receiver.requests[0]?.body.toString()).toContain('"data":{ "n":1.0 }}');
  await relay.stop();
  expect(await readdir(join(dir, "done"))).toEqual(["in.ndjson"]);
});

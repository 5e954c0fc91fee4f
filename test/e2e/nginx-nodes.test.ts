// Two nodes behind nginx as deploy/nginx/nodes.conf has it, restarted one after the other: no client ever reads a 502.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { expect, it } from "vitest";
import { freePort } from "../../tools/free-port.ts";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startNginx } from "../support/nginx.ts";
import { TEST_KEYS } from "../support/relay.ts";

const missing = needs("nginx");
/** How many clients publish, each one event after the other, with a breath between them. */
const CLIENTS = 10;
const BREATH_MS = 20;
const PAUSE_MS = 300;
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

it("a rolling restart behind nginx answers nobody with 502", { timeout: 240_000 }, async ({ skip }) => {
  skip(missing !== undefined, missing);
  const base = testFolder();
  const ports = [await freePort(), await freePort()] as const;
  const start = (i: 0 | 1): Promise<ChildRelay> => {
    const folder = join(base, String(i));
    mkdirSync(folder, { recursive: true });
    return startChild(folder, { config: `server: { port: ${ports[i]}, trustedProxies: ["127.0.0.1"] },` });
  };
  // What is stored where is no matter here, so that each has a storage of its own.
  const nodes = [await start(0), await start(1)];
  await using nginx = await startNginx(nodes[0]?.url ?? "", nodes[1]?.url ?? "", "nodes.conf", (config, _, port) =>
    config
      .replace("127.0.0.1:8081", `127.0.0.1:${ports[0]}`)
      .replace("127.0.0.1:8082", `127.0.0.1:${ports[1]}`)
      .replace("listen 443 ssl", `listen 127.0.0.1:${port}`)
      .replaceAll(/^ +ssl_.*$/gm, ""),
  );
  const dispatcher = new Agent();
  const headers = { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" };
  const body = JSON.stringify({ type: "a:b", keyId: "key_1", data: 1 });
  const answers = new Map<string, number>();
  let over = false;
  const client = async (): Promise<void> => {
    while (!over) {
      const answer = await request(`http://127.0.0.1:${nginx.port}/events`, {
        ...{ method: "POST", headers, body, dispatcher },
      }).catch((error: unknown) => ({ statusCode: String(error), body: { text: () => Promise.resolve("") } }));
      const text = await answer.body.text();
      const code = answer.statusCode === 503 ? ` ${/"code":"(\w+)"/.exec(text)?.[1]}` : "";
      const what = `${answer.statusCode}${code}`;
      answers.set(what, (answers.get(what) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, BREATH_MS));
    }
  };
  try {
    const clients = Array.from({ length: CLIENTS }, client);
    for (const i of [0, 1, 0, 1] as const) {
      await pause();
      const old = nodes[i] as ChildRelay;
      old.running.kill("SIGTERM");
      expect((await old.running.ended).code).toBe(0);
      await pause();
      nodes[i] = await start(i);
    }
    await pause();
    over = true;
    await Promise.all(clients);
    const wrong = [...answers].filter(([what]) => !/^(202|503 SHUTTING_DOWN)$/.test(what));
    expect(wrong).toEqual([]);
    expect(answers.get("202")).toBeGreaterThan(100);
  } finally {
    over = true;
    for (const node of nodes) await node[Symbol.asyncDispose]();
    await dispatcher.destroy();
  }
});

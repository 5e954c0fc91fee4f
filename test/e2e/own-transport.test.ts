// A transport of somebody else's, for a scheme of its own, loaded from a config file outside the repository.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { verifyHex } from "../../core/signing/verify.ts";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";

const TRANSPORT = `import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import type { Plugin, Transport } from "relaybox";

/** Appends each delivery to a file named by the URL: \`file-drop://name\`. */
export function fileDrop(): Plugin<"transport", Transport> {
  return {
    kind: "transport",
    name: "file-drop",
    setup: ({ dataDir }) => ({
      schemes: ["file-drop"],
      problems: (url) => (/^file-drop:\\/\\/[a-z]+$/.test(url) ? undefined : "must be file-drop:// and a name"),
      async send({ url, headers, body }) {
        const line = { headers, body: Buffer.from(body).toString("utf8") };
        await appendFile(join(dataDir, new URL(url).hostname), JSON.stringify(line) + "\\n");
        return { kind: "response", status: 200, excerpt: Buffer.from("kept"), truncated: false };
      },
      dispose: () => Promise.resolve(),
    }),
  };
}
`;

it("delivers signed events over a scheme of its own, beside https", async () => {
  const folder = testFolder();
  writeFileSync(join(folder, "file-drop.ts"), TRANSPORT);
  await using relay = await startChild(folder, {
    head: `import { fileDrop } from "./file-drop.ts";`,
    imports: ["https"],
    config: `transports: [https(), fileDrop()],`,
  });
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url: "file-drop://inbox", events: ["*"] });
  expect(made.status, JSON.stringify(made.json)).toBe(201);
  const refused = await relay.call("POST", "/api-keys/key_1/webhooks", { url: "ftp://example.com/", events: ["*"] });
  expect([refused.status, refused.json.code]).toEqual([400, "VALIDATION_FAILED"]);
  const misnamed = await relay.call("POST", "/api-keys/key_1/webhooks", { url: "file-drop://../up", events: ["*"] });
  expect([misnamed.status, misnamed.json.code, misnamed.json.errors]).toEqual([
    422,
    "URL_NOT_ALLOWED",
    [{ path: "url", message: "must be file-drop:// and a name", reason: "URL_REFUSED" }],
  ]);
  const { json } = await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { n: 1 } });
  await expect
    .poll(async () => (await relay.call("GET", `/api-keys/key_1/events/${json.data.id}`)).json.data.status)
    .toBe("delivered");
  const line = JSON.parse(readFileSync(join(folder, "data", "inbox"), "utf8")) as {
    headers: Record<string, string>;
    body: string;
  };
  expect(verifyHex(Buffer.from(line.body), line.headers, made.json.data.secret)).toBe(true);
});

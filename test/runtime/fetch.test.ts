// Control traffic: what is loaded for it at the first call.
import { createServer } from "node:http";
import { registerHooks } from "node:module";
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { createFetch } from "../../core/runtime/fetch.ts";

it("is fetched although the library could not be loaded at the first call", async () => {
  const server = createServer((_req, res) => void res.end("a key set"));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const { fetch, dispose } = createFetch(async () => connect(port, "127.0.0.1"));
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === "ofetch") throw new Error("EMFILE: too many open files");
      return next(specifier, context);
    },
  });
  try {
    await expect(fetch("http://keys.example/")).rejects.toThrow("EMFILE");
    hooks.deregister();
    expect(await fetch("http://keys.example/")).toMatchObject({ status: 200, text: "a key set" });
  } finally {
    await dispose().catch(() => undefined);
    server.close();
  }
});

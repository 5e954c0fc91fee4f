import { defineConfig } from "vitest/config";

const ci = process.env["CI"] === "true";

const at = (path: string): string => new URL(`../${path}`, import.meta.url).pathname;

export default defineConfig({
  // What is published is built; tests are about the sources.
  resolve: {
    alias: [
      { find: /^relaybox$/, replacement: at("config/index.ts") },
      { find: "relaybox/verify", replacement: at("core/signing/verify.ts") },
      { find: "relaybox/conformance", replacement: at("test/conformance/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/setup.ts"],
    pool: "forks",
    // Tests start relays, browsers and servers of their own: more than the cores can carry only makes them slow.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 5_000,
    reporters: ci ? ["default", ["json", { outputFile: "artefacts/tests.json" }]] : ["default"],
  },
});

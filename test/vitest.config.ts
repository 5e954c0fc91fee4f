import { defineConfig } from "vitest/config";

const ci = process.env["CI"] === "true";

export default defineConfig({
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

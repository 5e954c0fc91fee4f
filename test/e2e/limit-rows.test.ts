// No endpoint of the management API or of the accounts is forgotten in the table of limits.
import { expect, it } from "vitest";
import { defaultRows } from "../../config/limits.ts";
import { routeShape } from "../../core/limits/route-limits.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { startRelay } from "../support/relay.ts";

/** Publishing is bounded by the backlog; the rest needs no token and reads nothing that is stored. */
const FREE = /^(?:POST \/events|GET \/(?:healthz|readyz|\.well-known\/.+))$/;

it("every documented endpoint has a row, so that nobody may ask without end", async () => {
  await using relay = await startRelay({ storage: memory() });
  const { paths } = (await relay.call("GET", "/openapi.json")).json as { paths: Record<string, object> };
  const documented = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(documented.length).toBeGreaterThan(40);
  const rows = new Set(Object.keys(defaultRows).map(routeShape));
  expect(documented.filter((name) => !FREE.test(name) && !rows.has(routeShape(name)))).toEqual([]);
});

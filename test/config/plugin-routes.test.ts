// Plug-ins that get in each other's way are a problem of the config, which names them; so is a schedule that cannot be run.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RelayConfig } from "../../config/define.ts";
import { resolvePlan } from "../../config/validate.ts";
import type { SourcePlugin } from "../../core/ports/plan.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { composeRelay } from "../../core/runtime/compose/compose.ts";
import { createLog, createMetrics } from "../../core/runtime/observability/index.ts";
import type { Route } from "../../core/ports/route.ts";
import { cron } from "../../plugins/source/cron.ts";
import { http } from "../../plugins/source/http.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { refused } from "../support/config.ts";
import { sourcePlugin } from "../support/plugins.ts";

let folder: string;
beforeAll(async () => (folder = await mkdtemp(join(tmpdir(), "relay-routes-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

const frame = () => ({ configDir: folder, cwd: folder, settings: { dataDir: folder, port: 0 } });

const problemsOf = (config: object) => refused(config, frame())?.problems ?? [];

const declaring = (name: string, ...routes: readonly string[]): SourcePlugin => sourcePlugin(name, {}, { routes });

/** A plug-in that says nothing of its routes before it is set up. */
const serving = (name: string, method: Route["method"], path: string): SourcePlugin => {
  const route: Route = { method, path, handle: async () => ({ status: 204 }) };
  return sourcePlugin(name, { routes: [route] });
};

async function start(sources: readonly SourcePlugin[], more: RelayConfig = {}): Promise<unknown> {
  const config = { ...more, storage: memory(), sources, server: { host: "127.0.0.1", port: 0 } };
  const metrics = createMetrics();
  const relay = composeRelay(resolvePlan(config, frame()), { clock: systemClock(), log: createLog("silent"), metrics });
  const why = await relay.start().catch((error: unknown) => error);
  await relay.stop().catch(() => undefined);
  metrics.dispose();
  return why;
}

describe("plug-ins that declare their routes", () => {
  it("may not serve the same one, whatever its parameters are called", () => {
    const sources = [http(), declaring("shop", "POST /orders/{id}"), declaring("till", "POST /orders/{order}")];
    expect(problemsOf({ sources })).toEqual([
      { path: "sources[2]", message: "the plug-ins shop and till both serve POST /orders/{order}" },
    ]);
  });

  it("may not take the route of the http source", () => {
    expect(problemsOf({ sources: [declaring("shop", "POST /events"), http()] })).toEqual([
      { path: "sources[1]", message: "the plug-ins shop and http both serve POST /events" },
    ]);
  });

  it("may serve one path by different methods", () => {
    expect(problemsOf({ sources: [declaring("shop", "POST /orders"), declaring("till", "PUT /orders")] })).toEqual([]);
  });
});

describe("plug-ins that say nothing of their routes before", () => {
  it("end the start with 78 and both names when they serve the same", async () => {
    expect(await start([serving("shop", "POST", "/orders"), serving("till", "POST", "/orders")])).toMatchObject({
      exitCode: 78,
      message: "the plug-ins shop and till both serve POST /orders",
    });
  });

  it("end the start with 78 when they serve a route of the relay", async () => {
    expect(await start([serving("shop", "GET", "/healthz")])).toMatchObject({
      exitCode: 78,
      message: "the plug-in shop serves GET /healthz, a route of the relay",
    });
  });
});

describe("the schedule of a plug-in", () => {
  it("that cannot be run is a problem with its place and the plug-in's name", () => {
    const event = { type: "day.begins", keyId: "key_1", data: 1 };
    const sources = [
      http(),
      cron({ name: "morning", schedule: "99 * * * *", event }),
      cron({ name: "seldom", schedule: "*/70 * * * *", event }),
      cron({ schedule: "0 7 * * 1-5", event }),
    ];
    expect(problemsOf({ sources })).toEqual([
      {
        path: "sources[1].schedule",
        message: "of the plug-in morning is no cron expression that can be run: 99 * * * *",
      },
      {
        path: "sources[2].schedule",
        message: "of the plug-in seldom is no cron expression that can be run: */70 * * * *",
      },
    ]);
  });
});

it("names a target of notify.to that no transport of the config serves", async () => {
  const notify = { to: [{ url: "https://ops.example.com/relay" }, { url: "ftp://ops.example.com/relay" }] };
  expect(await start([http()], { notify })).toMatchObject({
    exitCode: 78,
    message: "notify.to[1].url: no transport in the config serves ftp: URLs",
  });
});

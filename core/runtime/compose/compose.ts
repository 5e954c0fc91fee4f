/** Composition: from a plan to a relay, in the order in which things come to life. Read it downwards. */
import { createApp, type AppDeps } from "../../api/http/app.ts";
import type { SourceInfo } from "../../ports/source.ts";
import { createLimiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import { refreshGauges } from "./gauges.ts";
import { closeGateway, LIMITER } from "./gateway.ts";
import { createJobs, type Jobs } from "../jobs.ts";
import { createLifecycle, type Step } from "../lifecycle.ts";
import { METRICS_READ, metricsStep } from "./metrics-route.ts";
import { setUpPlugins, type SetupContext } from "./plugin-setup.ts";
import { clusterActions } from "./cluster.ts";
import * as path from "./delivery-path.ts";
import { startOf } from "../plugin-faults.ts";
import type { Job, Plan, SourcePlugin } from "../../ports/plan.ts";
import { CATALOGUE, createReload, type Reload } from "./reload.ts";
import { listen, type Listening } from "../server.ts";
import { AUTH, registerRoutes, OPERATIONS, readiness, ROUTES, SOURCES } from "./routes.ts";
import { TELEMETRY } from "./telemetry.ts";
import { createContainer, token, type Container } from "./container.ts";

export type { SetupContext } from "./plugin-setup.ts";

export interface Relay {
  /** Resolves when events are taken in and delivered. @throws StartError with the exit code that fits */
  start(): Promise<Started>;
  /** Drains within `server.shutdownMs` and lets go of everything. Never rejects; may be called twice, and during a start. */
  stop(): Promise<void>;
  /** Takes over what may change while it runs; for a relay that has started. @returns the names of what changed */
  readonly reload: Reload;
}

export interface Started {
  readonly url: string;
  /** Files made at this start: to be told once, by path. */
  readonly made: readonly string[];
}

const JOBS = token<Jobs>("jobs");

export function composeRelay(plan: Plan, around: SetupContext): Relay {
  const { clock, log, metrics } = around;
  const house = createContainer();
  house.put(path.PLAN, plan);
  house.put(path.CLOCK_TOKEN, clock);
  house.put(path.LOG, log);
  house.put(path.METRICS, metrics);
  house.put(METRICS_READ, metrics);
  let made: readonly string[] = [];
  let listening: Listening | undefined;

  const app = (): AppDeps => ({
    ...around,
    auth: house.get(AUTH),
    limits: house.get(LIMITER),
    stepUp: plan.stepUp,
    maxBodyBytes: plan.intake.maxBodyBytes,
    trail: house.get(path.AUDIT_TRAIL).refused,
    trustedProxies: plan.server.trustedProxies,
    operations: house.get(OPERATIONS),
    refused: house.get(path.STATS_COLLECTOR).refused,
    routes: house.get(ROUTES),
  });

  const steps: readonly Step[] = [
    setUpPlugins(plan, house, around, (files) => (made = files)),
    {
      name: "worker",
      async start() {
        await house.get(LIMITER).load();
        await house.get(path.CIRCUIT_BREAKER).start();
        await house.get(path.SWEEPER).start();
        house.get(path.STATS_COLLECTOR).start();
        house.get(path.CLUSTER).listen(clusterActions(house.get));
        house.get(path.DISPATCHER).start();
        refreshGauges({
          metrics,
          get: house.get,
          readiness: () => readiness(house, lifecycle.state()),
          dropped: log.dropped,
        });
      },
      async stop(graceMs) {
        // Three quarters for attempts under way; the rest is for giving back what they leave.
        await Promise.all([house.get(path.SWEEPER).stop(), house.get(path.DISPATCHER).stop((graceMs * 3) / 4)]);
        await house.get(path.CIRCUIT_BREAKER).settled();
        await house.get(path.STATS_COLLECTOR).stop();
        await house.get(path.RATE_LIMIT).dispose();
      },
    },
    metricsStep(plan, metrics, app),
    {
      name: "server",
      async start() {
        listening = await listen(createApp(app()), plan.server);
      },
      async stop(graceMs) {
        await listening?.close(graceMs / 4);
        await closeGateway(house);
      },
    },
    {
      name: "sources",
      share: 1 / 4,
      async start() {
        const { accept: intake, admit } = house.get(path.ACCEPT);
        const accept = house.get(TELEMETRY).tracing?.accept(intake) ?? intake;
        const storage = house.get(path.STORAGE);
        const info: SourceInfo = {
          get durability() {
            return storage.durability;
          },
          admit,
        };
        for (const [i, source] of house.get(SOURCES).entries())
          await startOf(plan.sources[i] as SourcePlugin, async () => source.start(accept, info));
      },
      async stop() {
        await Promise.all(house.get(SOURCES).map((source) => source.stop()));
      },
    },
    { name: "jobs", share: 1 / 4, start: () => house.get(JOBS).start(), stop: () => house.get(JOBS).stop() },
  ];

  const lifecycle = createLifecycle({
    steps,
    stopping: ["sources", "jobs", "server", "worker", "metrics", "ports"],
    shutdownMs: plan.server.shutdownMs,
    clock,
    failed: (part, error) => log.error("a part did not stop well", { part, error: String(error) }),
  });

  path.registerPath(house);
  registerRoutes(house, { state: lifecycle.state });
  house.make(LIMITER, (get) =>
    createLimiter({
      counters: get(path.STORAGE).counters,
      rows: plan.limits,
      abuse: plan.abuse,
      clock,
      storage: get(path.STORAGE),
      log,
      metrics,
    }),
  );
  house.make(JOBS, (get) => createJobs({ jobs: plan.jobs, storage: get(path.STORAGE), run: runJob(house), log }));

  return {
    async start() {
      await lifecycle.start();
      if (listening === undefined) throw new StartError(75, "stopped before the start was over");
      return { url: listening.url, made };
    },
    stop: () => lifecycle.stop(),
    reload: createReload(plan, { limiter: () => house.get(LIMITER), catalogue: () => house.get(CATALOGUE), log }),
  };
}

const runJob =
  (house: Container) =>
  async (job: Job, signal: AbortSignal): Promise<number> => {
    switch (job.name) {
      case "replay":
        return await house.get(path.REPLAY_JOB)(job, signal);
      case "retention":
        return await house.get(path.RETENTION).run(job, signal);
    }
  };

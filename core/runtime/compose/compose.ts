/** Composes a relay from a plan, in the order in which its parts come to life. */
import { createApp, type AppDeps } from "../../api/http/app.ts";
import { AttentionWatch } from "../../attention/watch.ts";
import { StartError } from "../../model/errors.ts";
import type { Job, Plan, SourcePlugin } from "../../ports/plan.ts";
import type { SourceInfo } from "../../ports/source.ts";
import { Jobs } from "../jobs.ts";
import { Lifecycle, type Step } from "../lifecycle.ts";
import { startOf } from "../plugin/start.ts";
import { listen, type Listening } from "../server.ts";
import { TransformPool, type Transforms } from "../transforms/transforms.ts";
import { createEventChecks } from "../event-types/event-checks.ts";
import { composeGateway } from "./gateway.ts";
import { metricsStep, refreshGauges } from "./metrics.ts";
import { wrapped } from "./observers.ts";
import { Closing, openPorts, type OpenPorts, type SetupContext } from "./open-ports.ts";
import { composePath, type DeliveryPath } from "./path.ts";
import { createReload, reloadable, type Reload } from "./reload.ts";
import { readiness as readParts } from "./readiness.ts";
import { composeServed } from "./routes.ts";

export interface Relay {
  /** Resolves when events are taken in and delivered. @throws StartError with the exit code that fits */
  start(): Promise<Started>;
  /** Drains within `server.shutdownMs` and lets go of everything. Never rejects; may be called twice, and during a start. */
  stop(): Promise<void>;
  /** Takes over what may change while it runs; for a relay that has started. @returns the names of what changed */
  readonly reload: Reload;
}

interface Started {
  readonly url: string;
  /** Key files made at this start, by path: to be shown once. */
  readonly made: readonly string[];
}

export function composeRelay(plan: Plan, around: SetupContext): Relay {
  const { clock, log } = around;
  const closing = new Closing(clock);
  let current: Built | undefined;
  let listening: Listening | undefined;

  /** @throws Error before the ports are open */
  function built(): Built {
    if (current === undefined) throw new Error("the relay has not been started");
    return current;
  }

  const steps: readonly Step[] = [
    {
      name: "ports",
      async start() {
        current = await build(plan, around, await openPorts(plan, around, closing), () => lifecycle.state());
      },
      stop: (graceMs) => closing.close(graceMs),
    },
    { name: "worker", start: () => startWorker(built(), around), stop: (graceMs) => stopWorker(built().path, graceMs) },
    metricsStep(plan, around.metrics, () => built().app),
    {
      name: "server",
      async start() {
        listening = await listen(createApp(built().app), plan.server);
      },
      async stop(graceMs) {
        await listening?.close(graceMs / 4);
        await built().gateway.dispose();
      },
    },
    // First of all, so that a proxy takes its new connections to another node. Those that are open are answered.
    { name: "door", start: () => undefined, stop: () => listening?.refuse() },
    {
      name: "sources",
      share: 1 / 4,
      start: () => startSources(plan, built()),
      async stop(graceMs) {
        await Promise.all(built().ports.sources.map((source) => source.stop(graceMs * 0.9)));
      },
    },
    { name: "jobs", share: 1 / 4, start: () => built().jobs.start(), stop: () => built().jobs.stop() },
  ];

  const lifecycle = new Lifecycle({
    steps,
    stopping: ["door", "sources", "jobs", "server", "worker", "metrics", "ports"],
    shutdownMs: plan.server.shutdownMs,
    clock,
    failed: (part, error) => log.error("a part did not stop well", { part, error: String(error) }),
  });

  return {
    async start() {
      await lifecycle.start();
      if (listening === undefined) throw new StartError(75, "stopped before the start was over");
      return { url: listening.url, made: built().ports.made };
    },
    stop: () => lifecycle.stop(),
    reload: createReload(reloadable(plan), {
      limiter: () => built().ports.limiter,
      catalogue: () => built().path.catalogue,
      transforms: () => built().path.transforms,
      log,
    }),
  };
}

/** The parts that a start builds once the ports are open. */
type Built = Awaited<ReturnType<typeof build>>;

async function build(plan: Plan, around: SetupContext, ports: OpenPorts, state: Lifecycle["state"]) {
  const { clock, log, metrics } = around;
  const transforms = transformsOf(plan, ports, around);
  const eventChecks = await createEventChecks(plan.eventTypes, { clock, log, metrics });
  const path = composePath({ ...ports, plan, clock, log, metrics, transforms, eventChecks });
  const run = (job: Job, signal: AbortSignal): Promise<number> =>
    job.name === "replay" ? path.replayJob(job, signal) : path.retention.run(job, signal);
  const jobs = new Jobs({ jobs: plan.jobs, storage: ports.storage, run, log, clock });
  const gateway = composeGateway(plan, ports, around);
  const readiness = () => readParts(ports, plan, state(), path.publisher);
  const { pages } = around;
  const served = composeServed({ ports, path, gateway: gateway.routes, metrics, state, readiness, pages });
  const app: AppDeps = {
    ...{ ...around, ...served },
    limits: ports.limiter,
    stepUp: plan.stepUp,
    maxBodyBytes: plan.intake.maxBodyBytes,
    trail: path.auditTrail.refused,
    trustedProxies: plan.server.trustedProxies,
    refused: path.refused,
  };
  return { ports, path, jobs, gateway, app, readiness };
}

async function startWorker({ ports, path, readiness }: Built, { log, metrics }: SetupContext): Promise<void> {
  await ports.limiter.load();
  await path.circuitBreaker.start();
  await path.sweeper.start();
  path.eventErasure.start();
  path.keyErasure.start();
  path.statsCollector.start();
  path.noticeWatch.start(new AttentionWatch({ ...path, readiness }).look);
  path.notifyTargets.start();
  path.cluster.listen();
  path.dispatcher.start();
  refreshGauges({ metrics, path, readiness, dropped: log.dropped });
}

async function stopWorker(path: DeliveryPath, graceMs: number): Promise<void> {
  // Three quarters for attempts under way; the rest is for giving back what they leave.
  await Promise.all([
    ...[path.sweeper, path.eventErasure, path.keyErasure, path.noticeWatch, path.notifyTargets].map((one) =>
      one.stop(),
    ),
    path.dispatcher.stop((graceMs * 3) / 4),
  ]);
  await path.away.stop();
  await path.transforms?.stop();
  await path.circuitBreaker.settled();
  // The notices of the last attempts.
  await path.notices.settled();
  await path.statsCollector.stop();
}

async function startSources(plan: Plan, { ports, path }: Built): Promise<void> {
  const { publisher, storage } = path;
  const accept = wrapped(ports.observers, (one) => one.wrapAccept, publisher.accept);
  // As the storage declares it: one that may change is read again each time.
  const durability = Object.getOwnPropertyDescriptor(storage, "durability") as PropertyDescriptor;
  const info = Object.freeze(Object.defineProperty({ admit: publisher.admit }, "durability", durability)) as SourceInfo;
  for (const [i, source] of ports.sources.entries())
    await startOf(plan.sources[i] as SourcePlugin, async () => source.start(accept, info), ports.starting);
}

/** @throws StartError when the config has transforms and nothing here can run them */
function transformsOf(plan: Plan, { hide }: OpenPorts, around: SetupContext): Transforms | undefined {
  const { transforms: spawn, clock, log, metrics } = around;
  const names = Object.keys(plan.transforms);
  if (spawn === undefined && names.length > 0) throw new StartError(70, "transforms: there is nothing to run them");
  if (spawn === undefined) return undefined;
  const { transformLimits: limits, delivery } = plan;
  return new TransformPool({ spawn, names, limits, concurrency: delivery.concurrency, hide, clock, log, metrics });
}

/**
 * Holds the ports of one path in a tsyringe container: a relay registers those that it has opened, a test its own. The
 * container never leaves this folder; the parts that stand on the ports are plain values.
 */
import "reflect-metadata";
import { container, instanceCachingFactory } from "tsyringe";
import type { Guard } from "../../guard/index.ts";
import { chooseTransport, type TransportChoice } from "../../model/transport-choice.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Observer } from "../../ports/observer.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Log, Metrics } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import type { EventCheck } from "../../publish/parse-events.ts";
import { FANOUT_BOUNDS, type FanoutBounds } from "../../publish/write-event.ts";
import type { Ed25519Key } from "../../signing/ed25519.ts";
import type { Transforms } from "../transforms/transforms.ts";

export interface GivenPorts {
  readonly plan: Plan;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly keys: Keys;
  /** Keys that sign deliveries with Ed25519 too. */
  readonly webhookKeys?: readonly Ed25519Key[] | undefined;
  readonly guard: Pick<Guard, "register">;
  readonly storage: Storage;
  readonly transports: readonly Transport[];
  /** Observers of plug-ins. */
  readonly observers: readonly Observer[];
  /** Masks secrets in what people see. @default nothing is masked */
  readonly hide?: (text: string) => string;
  readonly fanoutBounds?: FanoutBounds;
  /** Runs the transforms of the config; without it there are none. */
  readonly transforms?: Transforms | undefined;
  /** Judges data by the schemas of the config; without it no type is checked. */
  readonly eventChecks?: EventCheck | undefined;
}

export interface PathPorts extends GivenPorts {
  readonly fanoutBounds: FanoutBounds;
  readonly transportOf: TransportChoice<Transport>;
}

/** Registers the ordinary ports, then what is given in their place. @returns all of them, each made once */
export function portsOf(given: GivenPorts): PathPorts {
  const registry = container.createChildContainer();
  const names = new Set<string>();
  function register(name: keyof PathPorts, make: () => unknown): void {
    names.add(name);
    registry.register(name, { useFactory: instanceCachingFactory(make) });
  }
  register("fanoutBounds", () => FANOUT_BOUNDS);
  register("transportOf", () => chooseTransport(registry.resolve<PathPorts["transports"]>("transports")));
  for (const [name, port] of Object.entries(given)) register(name as keyof GivenPorts, () => port);
  return Object.fromEntries([...names].map((name) => [name, registry.resolve(name)])) as unknown as PathPorts;
}

/** A node of the simulated relay: the whole path, composed as in a real one, on simulated ports. */
import type { Log } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { DeliveryPath } from "../../core/runtime/compose/path.ts";
import type { TestClock } from "../support/clock.ts";
import { testPath, type PathOptions } from "../support/path.ts";
import type { SimNet } from "./network.ts";
import type { SimTransforms } from "./transforms.ts";
import type { Life, World } from "./world.ts";

export interface SimNode {
  readonly life: Life;
  readonly parts: DeliveryPath;
  /** Drains and lets go, as a relay that is told to stop. */
  stop(graceMs: number): Promise<void>;
}

export interface NodeTraits extends Required<Pick<PathOptions, "health">>, Pick<Plan, "delivery" | "retry"> {
  fanout?: PathOptions["fanout"];
  readonly transforms: SimTransforms;
}

/** Resolves when it takes events in and delivers them. */
export async function startNode(
  world: World,
  life: Life,
  storage: Storage,
  net: SimNet,
  traits: NodeTraits,
): Promise<SimNode> {
  const tell = (message: string, fields: object = {}): void =>
    world.say(`${life.name}: ${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: () => {}, info: () => {}, warn: tell, error: tell };
  const test = await testPath({
    ...traits,
    transforms: traits.transforms.of(life),
    clock: life.clock as TestClock,
    storage,
    log,
  });
  const { send } = net.transport(life);
  test.otherwise = send;
  test.parts.cluster.listen();
  await test.start();
  test.parts.eventErasure.start();
  test.parts.keyErasure.start();
  return {
    life,
    parts: test.parts,
    async stop(graceMs) {
      await test.parts.sweeper.stop();
      await Promise.all([test.parts.eventErasure.stop(), test.parts.keyErasure.stop()]);
      await test.parts.dispatcher.stop(graceMs);
      await test.parts.circuitBreaker.settled();
      await storage.dispose();
    },
  };
}

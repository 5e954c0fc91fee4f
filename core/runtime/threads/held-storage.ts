/** Opens the storage that the nodes of a process share, where only one may have it open, and serves it to their threads. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Plan } from "../../ports/plan.ts";
import type { Storage } from "../../ports/storage.ts";
import { pluginParts } from "../compose/readiness.ts";
import { openSurroundings, type SetupContext } from "../compose/surroundings.ts";
import { contextOf } from "../plugin/context.ts";
import { createIncidents } from "../plugin/incidents.ts";
import { startOf } from "../plugin/start.ts";
import { createWalls } from "../plugin/wall.ts";
import { walledStorage } from "../plugin/walled.ts";
import type { ThreadsState } from "./node-thread.ts";
import { createStorageHost } from "./storage-host.ts";

export interface HeldStorage {
  /** A port for one thread, and what to call when that thread has ended. */
  connect(): { readonly port: MessagePort; left(): Promise<void> };
  /** What `/readyz` says of the storage when it has failed within the last minute. */
  parts(): ThreadsState["parts"];
  close(): Promise<void>;
}

/** @throws StartError as a start of a single node does */
export async function holdStorage(plan: Plan, around: SetupContext): Promise<HeldStorage> {
  const { clock, log } = around;
  const keeper = plan.storage;
  const incidents = createIncidents(around);
  const surroundings = await openSurroundings(plan, around);
  try {
    const { bare, hide } = surroundings;
    const wall = createWalls(clock, incidents)(keeper);
    const setUp = async (): Promise<Storage> =>
      walledStorage(await keeper.setup(contextOf(keeper, bare, undefined)), wall);
    const storage = await startOf(keeper, setUp, { hide, clock, log });
    const host = createStorageHost({ storage, clock, log });
    return {
      connect() {
        const { port1, port2 } = new MessageChannel();
        const left = host.serve(port1);
        return {
          port: port2,
          async left() {
            await left();
            port1.close();
          },
        };
      },
      parts: () => pluginParts({ sources: [], transports: [], hide, incidents }, plan),
      async close() {
        host.close();
        await storage.dispose();
        await surroundings.close();
      },
    };
  } catch (error) {
    await surroundings.close();
    throw error;
  }
}

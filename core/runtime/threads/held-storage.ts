/** Opens the storage that the nodes of a process share, where only one may have it open, and serves it to their threads. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Plan } from "../../ports/plan.ts";
import { openSurroundings, type SetupContext } from "../compose/surroundings.ts";
import { contextOf } from "../plugin-context.ts";
import { startOf } from "../plugin-faults.ts";
import { createStorageHost } from "./storage-host.ts";

export interface HeldStorage {
  /** A port for one thread, and what to call when that thread has ended. */
  connect(): { readonly port: MessagePort; left(): Promise<void> };
  close(): Promise<void>;
}

/** @throws StartError as a start of a single node does */
export async function holdStorage(plan: Plan, around: SetupContext): Promise<HeldStorage> {
  const { clock, log } = around;
  const keeper = plan.storage;
  const surroundings = await openSurroundings(plan, around);
  try {
    const { bare, hide } = surroundings;
    const storage = await startOf(keeper, () => keeper.setup(contextOf(keeper, bare, undefined)), { hide, clock, log });
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

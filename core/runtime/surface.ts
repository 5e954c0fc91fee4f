/** The surface, composed: what the API serves beside the routes of plug-ins. */
import { catalogueOperations } from "../api/catalogue.ts";
import { createCursors } from "../api/cursor.ts";
import { deliveryOperations } from "../api/deliveries.ts";
import type { AnyOperation } from "../api/endpoint.ts";
import { eventOperations } from "../api/events.ts";
import { healthRoutes, type Part } from "../api/health.ts";
import { webhookOperations } from "../api/webhooks.ts";
import { isOrdinal, ordinals } from "../model/ids.ts";
import type { Auth } from "../ports/auth.ts";
import type { Route } from "../ports/plugin.ts";
import type { Lifecycle } from "./lifecycle.ts";
import * as path from "./path.ts";
import { token, type House } from "./tokens.ts";

export const AUTH = token<Auth>("auth");
export const OPERATIONS = token<readonly AnyOperation[]>("operations");
export const ROUTES = token<readonly Route[]>("routes");

export function furnishSurface(house: House, { state }: { readonly state: Lifecycle["state"] }): void {
  house.make(OPERATIONS, (get) => {
    const clock = get(path.CLOCK);
    const base = {
      storage: get(path.STORAGE),
      directory: get(path.DIRECTORY),
      subscriptions: get(path.SUBSCRIPTIONS),
      history: get(path.HISTORY),
      replay: get(path.REPLAY),
      keys: get(path.KEYS),
      cursors: createCursors(get(path.KEYS), isOrdinal),
      clock,
      ordinal: ordinals(clock.now),
      events: get(path.PLAN).events,
      schemes: get(path.TRANSPORTS).flatMap((transport) => transport.schemes),
    };
    return [
      ...webhookOperations(base),
      ...eventOperations(base),
      ...deliveryOperations(base),
      ...catalogueOperations(base),
    ];
  });
  house.make(ROUTES, (get) => [
    ...healthRoutes({ clock: get(path.CLOCK), readiness: () => readiness(house, state()) }),
  ]);
}

/** The truth about each part, asked anew at each probe. */
async function readiness(house: House, state: ReturnType<Lifecycle["state"]>): Promise<Readonly<Record<string, Part>>> {
  const storage = await house
    .get(path.STORAGE)
    .status()
    .then(
      (): Part => ({ ready: true }),
      (): Part => ({ ready: false, state: "does not answer" }),
    );
  const auth: Part = house.get(AUTH).ready() ? { ready: true } : { ready: false, state: "has no keys yet" };
  return { relay: { ready: state === "running", state }, storage, auth };
}

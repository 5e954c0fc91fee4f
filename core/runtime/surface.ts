/** The surface, composed: what the API serves beside the routes of plug-ins. */
import type { AnyOperation } from "../api/endpoint.ts";
import type { Route } from "../ports/plugin.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { token, type House } from "./tokens.ts";

export const OPERATIONS = token<readonly AnyOperation[]>("operations");
export const ROUTES = token<readonly Route[]>("routes");

export function furnishApi(house: House, { state }: { readonly state: Lifecycle["state"] }): void {
  house.make(OPERATIONS, () => []);
  house.make(ROUTES, () => [
    {
      method: "GET",
      path: "/healthz",
      handle: () => Promise.resolve({ status: state() === "stopped" ? 503 : 200, body: "ok" }),
    },
  ]);
}

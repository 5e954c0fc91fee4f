/** The pages that a config asks for, as the command hands them to the relay: the dashboard, the portal, both or none. */
import { VERSION } from "../core/model/version.ts";
import type { Plan } from "../core/ports/plan.ts";
import type { Route } from "../core/ports/plugin.ts";
import { assetsOnce } from "./assets.ts";
import { portalRoutes } from "./portal.ts";
import { type DashboardDeps, dashboardRoutes } from "./routes.ts";

export function pages(plan: Plan, firstRun: DashboardDeps["firstRun"]): readonly Route[] {
  const { dashboard, portal } = plan;
  const look = { userAgent: `Relay/${VERSION}`, repeated: plan.signature.headers, assets: assetsOnce() };
  return [
    ...(dashboard ? dashboardRoutes({ firstRun, portal: portal !== false, ...look }) : []),
    ...(portal ? portalRoutes(portal, look) : []),
  ];
}

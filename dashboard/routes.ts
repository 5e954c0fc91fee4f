/** Serves the page at `/developers`, to which `/` leads, and its assets, which never change under their names. */
import type { RepeatedHeaders } from "../core/model/header-names.ts";
import type { Route } from "../core/ports/plugin.ts";
import { type Assets, assetsOnce } from "./assets.ts";
import { answer, answerAsset, html, securityHeaders } from "./page.ts";

export interface DashboardDeps {
  /** Whether there is no account yet; absent where the relay keeps none and takes tokens from elsewhere. */
  readonly firstRun: (() => Promise<boolean>) | undefined;
  /** The `User-Agent` that the relay sends, for the view of a sent request. */
  readonly userAgent: string;
  /** Headers that deliveries have a second time, under a name of the config, for the same view. */
  readonly repeated?: RepeatedHeaders;
  /** Whether there is a portal to make links for. @default false */
  readonly portal?: boolean;
  /** @default loaded at the first request */
  readonly assets?: () => Promise<Assets>;
}

const GUARDED = securityHeaders();

export function dashboardRoutes(deps: DashboardDeps): readonly Route[] {
  const { firstRun, userAgent, repeated = {}, portal = false, assets = assetsOnce() } = deps;
  const page = (all: Assets, first: boolean): string =>
    html(all, {
      base: "/developers",
      title: "Relaybox",
      data: {
        auth: firstRun ? "accounts" : "tokens",
        "first-run": first ? "yes" : "no",
        agent: userAgent,
        repeated: JSON.stringify(repeated),
        portal: portal ? "yes" : "no",
      },
    });

  return [
    {
      method: "GET",
      path: "/",
      async handle() {
        const headers = { location: "/developers", "cache-control": "no-cache", "content-type": "text/plain" };
        return { status: 302, headers, body: "The dashboard is at /developers\n" };
      },
    },
    {
      method: "GET",
      path: "/developers",
      async handle(request) {
        const [all, first] = await Promise.all([assets(), firstRun?.() ?? false]);
        const head = {
          ...securityHeaders([], all.start),
          "content-type": "text/html; charset=utf-8",
          "cache-control": "no-cache",
        };
        return answer(request, head, `"${all.version}${first ? "-first" : ""}"`, Buffer.from(page(all, first)));
      },
    },
    {
      method: "GET",
      path: "/developers/{asset}",
      handle: async (request) => answerAsset(request, await assets(), GUARDED),
    },
  ];
}

/** A request as a plug-in's route sees it, made without a server. */
import { unzipSync } from "node:zlib";
import { Problem } from "../../core/model/problem.ts";
import type { Route, RouteReply, RouteRequest } from "../../core/ports/route.ts";

export function routeRequest(body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): RouteRequest {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  return {
    method: "POST",
    path: "/events",
    params: {},
    query: new URLSearchParams(),
    header: (name) => lower.get(name),
    body: async (maxBytes, _caller, coding) => {
      if (coding !== undefined) return unzipSync(bytes);
      if (bytes.length > maxBytes) throw new Problem("PAYLOAD_TOO_LARGE", "too large");
      return bytes;
    },
    address: "127.0.0.1",
    requestId: "req_test",
    signal: new AbortController().signal,
  };
}

/** Asks a route as the server does: who it is, then the answer. */
export async function answered(route: Route, request: RouteRequest): Promise<RouteReply> {
  const found = await route.identify?.(request);
  return route.handle(request, found?.caller);
}

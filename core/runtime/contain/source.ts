/** The wall around a source: it hands in events while it may, and its stop ends in time. */
import { isPluginName } from "../../model/names.ts";
import { Problem } from "../../model/problem.ts";
import type { Accept, AcceptRequest, Source, SourceInfo } from "../../ports/source.ts";
import { checkPort, reasonOf, wallOf, type Walls } from "./wall.ts";
import type { PluginName } from "./incidents.ts";
import { containRoutes } from "./routes.ts";

export interface ContainedSource extends Source {
  /** Never rejects. @param graceMs how long it is waited for; then what it still hands in is refused */
  stop(graceMs?: number): Promise<void>;
}

const STOP_MS = 5_000;

/** @throws StartError 78 when it is no source */
export function containSource(source: Source, plugin: PluginName, walls: Walls): ContainedSource {
  checkPort(source, plugin, ["start", "stop"]);
  const wall = wallOf(plugin, walls);
  const { inside, outside } = wall;
  let stopped = false;

  function own(accept: Accept): Accept {
    return (request) =>
      stopped
        ? Promise.reject(new Problem("SHUTTING_DOWN", "Nothing is accepted now.", { retryAfter: 5 }))
        : outside(() => accept(named(request)));
  }

  /** Its name is a label of metrics and a field of the log. */
  function named(request: AcceptRequest): AcceptRequest {
    if (request?.source === plugin.name || isPluginName(request?.source)) return request;
    wall.note("accept", new Error("what it handed in has no name that metrics can carry"));
    return { ...request, source: plugin.name };
  }

  return {
    ...(source.routes && { routes: containRoutes(source.routes, wall) }),
    start: (accept, info: SourceInfo) => inside(() => source.start(own(accept), info)),
    async stop(graceMs = STOP_MS) {
      await wall.end("stop", graceMs, () => source.stop());
      stopped = true;
    },
    ...(source.readiness && { readiness: () => reasonOf(() => inside(() => source.readiness?.())) }),
  };
}

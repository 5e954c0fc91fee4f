/** The metric of sources that know how much waits upstream. */
import type { MetricDeclaration } from "../../../core/model/metric-declaration.ts";

export const BACKLOG: MetricDeclaration = {
  name: "relay_source_backlog",
  type: "gauge",
  help: "Messages that wait upstream, by source",
  labels: ["source"],
};

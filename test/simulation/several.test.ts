// The path under a virtual clock, made by a seed alone.
import { describeSeeds } from "./seeds.ts";

const what = "with several nodes: killed, frozen, cut off, on one shared store with leases that lapse";
describeSeeds("several", 50, what);

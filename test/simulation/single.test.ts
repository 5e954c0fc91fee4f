// The path under a virtual clock, made by a seed alone.
import { describeSeeds } from "./seeds.ts";

describeSeeds("single", 120, "with one node: killed, frozen, told to stop, on a disk that loses what was not synced");

// The path under a virtual clock with a real Redis: its scripts, made by a seed alone.
import { needs } from "../support/needs.ts";
import { describeSeeds } from "./seeds.ts";

describeSeeds("redis", 6, "with several nodes on a real Redis: killed, frozen, cut off", needs("redis"));

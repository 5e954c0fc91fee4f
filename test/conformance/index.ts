/** `relaybox/conformance`: the laws of the ports, for plug-ins of anyone. Each takes vitest's `it` (or a name) and a harness. */
export { describeAuth } from "./auth.ts";
export type { AuthHarness } from "./auth.ts";
export { testContext } from "./context.ts";
export type { LogLine, TestContext, TestContextOptions } from "./context.ts";
export { describeCounters } from "./counters.ts";
export type { CountersHarness } from "./counters.ts";
export { describeSource } from "./source.ts";
export type { SourceHarness, SourceUnderTest, Upstream } from "./source.ts";
export { describeStorage } from "./storage.ts";
export type { StorageHarness } from "./storage.ts";
export { describeTransport } from "./transport.ts";
export type { FarRequest, FarSide, TransportBench, TransportHarness } from "./transport.ts";
export { systemClock } from "../../core/runtime/clock.ts";
export { testClock } from "./clock.ts";
export type { TestClock } from "./clock.ts";

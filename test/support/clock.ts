/** The clock that tests move by hand, as the conformance suites export it. */
export { testClock, turn } from "../conformance/clock.ts";
export type { TestClock } from "../conformance/clock.ts";

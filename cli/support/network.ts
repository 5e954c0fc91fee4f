/** Asks whether a relay is there. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { inTime } from "../../core/client/http.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Trust } from "./trust.ts";

/** @throws Error `none within … s` when the work fails after that; else what the work throws */
export const withDeadline = <T>(clock: Clock, ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  inTime(ms, (wait, signal) => clock.sleep(clock.now() + wait, signal), work);

const PROBE_MS = 4_000;
/** Of an answer to a probe, characters. */
const LONGEST = 65_536;

/**
 * Makes one GET, as a container's health check does: no token, no libraries.
 * @param trust how the certificate is judged. @default it is not
 * @throws Error when nothing has come within 4 s
 */
export function probe(url: string, clock: Clock, trust?: Trust | "default"): Promise<{ status: number; text: string }> {
  const how = trust === undefined ? { rejectUnauthorized: false } : trust === "default" ? {} : trust;
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  return withDeadline(clock, PROBE_MS, (signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    const asked = request(url, { ...how, agent: false, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.length > LONGEST) answer.destroy(new Error("the answer is too long"));
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text })).on("error", reject);
    });
    asked.on("error", reject).end();
    return promise;
  });
}

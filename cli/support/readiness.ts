/** Asks a relay whether it is ready, as a container's health check does: one request, no token, no libraries. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { readEnvironment } from "../../config/environment.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given } from "./command.ts";
import { checkBase, localUrl } from "./client.ts";
import { withDeadline } from "./deadline.ts";
import { EX_UNAVAILABLE, ExitError } from "./exit.ts";
import { loadFor } from "./load-config.ts";
import { networkReason } from "./network-reason.ts";

const TIMEOUT_MS = 4_000;
const LONGEST = 65_536;

interface Ready {
  readonly url: string;
  readonly ready: boolean;
  /** The state of each part; `ready` where it names none. */
  readonly parts: readonly (readonly [string, string])[];
}

/** @throws ExitError 69 when nobody answers, or something that is no relay */
export async function askReady(given: Given, io: CliEnvironment): Promise<Ready> {
  const { settings } = readEnvironment(io.env);
  const named = given.text("url") ?? settings.url;
  const base = checkBase(named ?? localUrl((await loadFor(given, io)).plan));
  // On this machine the certificate is not checked: it is for the relay's public name, and no secret is sent.
  const answer = await probe(`${base}/readyz`, io, { verify: named !== undefined }).catch((error: unknown) => {
    throw new ExitError(EX_UNAVAILABLE, `no answer from ${base}: ${networkReason(error)}`, { cause: error });
  });
  const parts = partsOf(answer.text);
  if (parts === undefined || (answer.status !== 200 && answer.status !== 503)) {
    throw new ExitError(EX_UNAVAILABLE, `${base} answers ${answer.status}, as no relay does`);
  }
  return { url: base, ready: answer.status === 200, parts };
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

interface ProbeOptions {
  /** Whether the certificate must be one for this address. */
  readonly verify: boolean;
}

/** One GET. @throws Error when nothing has come within 4 s */
export const probe = (url: string, { clock }: Pick<CliEnvironment, "clock">, options: ProbeOptions): Promise<Answer> =>
  withDeadline(clock, TIMEOUT_MS, (signal) => get(url, options, signal));

function get(url: string, { verify }: ProbeOptions, signal: AbortSignal): Promise<Answer> {
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, rejectUnauthorized: verify, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.length > LONGEST) answer.destroy(new Error("the answer is too long"));
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text })).on("error", reject);
    });
    asked.on("error", reject).end();
  });
}

function partsOf(text: string): Ready["parts"] | undefined {
  try {
    const { data } = JSON.parse(text) as { data: { parts: Record<string, { ready: boolean; state?: string }> } };
    return Object.entries(data.parts).map(([name, part]) => [name, part.state ?? (part.ready ? "ready" : "not ready")]);
  } catch {
    return undefined;
  }
}

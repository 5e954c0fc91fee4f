/** Asks a relay whether it is ready, as a container's health check does: one request, no token, no libraries. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { readEnvironment } from "../../../config/environment.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given } from "./command.ts";
import { localUrl } from "./client.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "./exit.ts";
import { loadFor } from "./load-config.ts";

const TIMEOUT_MS = 4_000;
const LONGEST = 65_536;

export interface Ready {
  readonly url: string;
  readonly ready: boolean;
  /** The state of each part; `ready` where it names none. */
  readonly parts: readonly (readonly [string, string])[];
}

/** @throws ExitError 69 when nobody answers, or something that is no relay */
export async function askReady(given: Given, io: CliEnvironment): Promise<Ready> {
  const { settings } = readEnvironment(io.env);
  const named = given.text("url") ?? settings.url;
  if (named !== undefined && !URL.canParse(named)) throw usage("--url must be an http:// or https:// URL");
  const base = named ?? localUrl((await loadFor(given, io)).plan);
  const url = `${base.replace(/\/+$/, "")}/readyz`;
  // On this machine the certificate is not checked: it is for the relay's public name, and no secret is sent.
  const answer = await probe(url, io, { verify: named !== undefined }).catch((error: Error) => {
    throw new ExitError(EX_UNAVAILABLE, `no answer from ${base}: ${error.message}`, { cause: error });
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

export interface ProbeOptions {
  /** Whether the certificate must be one for this address. */
  readonly verify: boolean;
  /** Sent as a Bearer token. @default none */
  readonly token?: string | undefined;
}

/** One GET. @throws Error when nothing has come within 4 s */
export async function probe(
  url: string,
  { clock }: Pick<CliEnvironment, "clock">,
  options: ProbeOptions,
): Promise<Answer> {
  const late = new AbortController();
  const over = new AbortController();
  const wait = clock.sleep(clock.now() + TIMEOUT_MS, over.signal).then(
    () => late.abort(new Error(`none within ${TIMEOUT_MS / 1_000} s`)),
    () => undefined,
  );
  try {
    return await get(url, options, late.signal);
  } catch (error) {
    throw late.signal.aborted ? (late.signal.reason as Error) : error;
  } finally {
    over.abort();
    await wait;
  }
}

function get(url: string, { verify, token }: ProbeOptions, signal: AbortSignal): Promise<Answer> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, rejectUnauthorized: verify, signal, headers }, (answer) => {
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

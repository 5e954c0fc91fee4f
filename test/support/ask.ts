/** One HTTP request as it is told, over a connection of its own or a shared one. */
import { request } from "node:http";
import type { Agent, IncomingHttpHeaders } from "node:http";

export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** The body as JSON, or `{}` where it is none. */
  readonly json: { readonly code?: string; readonly [name: string]: unknown };
}

export interface Asking {
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  readonly agent?: Agent;
}

export function ask(port: number, method: string, path: string, { headers, body, agent }: Asking = {}): Promise<Got> {
  return new Promise((resolve, reject) => {
    const options = {
      port,
      method,
      path,
      headers: headers as Record<string, string>,
      agent: agent ?? (false as const),
    };
    const req = request(options, (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("error", reject);
      res.on("end", () => {
        const whole = Buffer.concat(chunks);
        const { statusCode: status = 0, headers: got, rawHeaders } = res;
        resolve({ status, headers: got, rawHeaders, body: whole, json: parsed(whole) });
      });
    });
    req.on("error", reject);
    req.end(body);
  });
}

function parsed(body: Buffer): Got["json"] {
  try {
    return JSON.parse(body.toString()) as Got["json"];
  } catch {
    return {};
  }
}

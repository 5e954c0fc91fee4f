/** Checks the head of a request before anything else is made of it. */
import { Problem } from "../../model/problem.ts";
import { countHeader, type Call } from "./call.ts";

const CLOSE = { headers: { Connection: "close" } } as const;

/** What a head must have that it has not. */
function wantedOf(req: Call["req"]): string | undefined {
  const { httpVersion } = req;
  if (httpVersion !== "1.1" && httpVersion !== "1.0") return "HTTP/1.1";
  const hosts = countHeader(req, "host");
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1")) return "one Host header";
  const coding = req.headers["transfer-encoding"];
  if (coding === undefined) return undefined;
  // RFC 9112 §6.1: in HTTP/1.0 it may come from a server in between that does not know it.
  if (httpVersion === "1.0") return "HTTP/1.1 with Transfer-Encoding";
  return coding.toLowerCase() === "chunked" ? undefined : "Transfer-Encoding: chunked, or none";
}

/** Refuses a head that two servers could read differently. @throws Problem VALIDATION_FAILED */
export function checkHead({ req, res }: Call): void {
  const wanted = wantedOf(req);
  if (wanted === undefined) return;
  // At once: what follows on the connection may have been read already, and must not be carried out.
  res.shouldKeepAlive = false;
  throw new Problem("VALIDATION_FAILED", `Send ${wanted}.`, CLOSE);
}

/** Resolves a name to its addresses: DNS through c-ares, and the hosts file for names that an operator allows. */
import { promises as dns } from "node:dns";
import { readFile } from "node:fs/promises";
import { unlessAborted } from "../lib/within.ts";
import { nextStep } from "../lib/reason.ts";
import { ConnectError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { parseAddress } from "./ip-address.ts";

/** Returns every address of a name, both families. @throws ConnectError `dns`, or the signal's reason */
export type Resolve = (name: string, signal: AbortSignal) => Promise<readonly string[]>;

/** Timeout of one query to one server, ms, and how often it is sent. The attempt's own deadline may end it sooner. */
const QUERY = { timeout: 2_000, tries: 2 } as const;
/** A resolver reads `resolv.conf` when it is made; a new one replaces it this often, to notice changes, ms. */
const RENEW_MS = 30_000;

/**
 * Queries DNS for A and AAAA at once. It avoids `dns.lookup`, which shares four threads with the file system, where a
 * few dead names delay everybody. Search domains are never appended. Callers that ask for one name at the same time
 * share the query; nothing is remembered after the answer.
 * @param servers `address:port` of name servers. @default the system's
 */
export const dnsResolver = (clock: Clock, servers?: readonly string[]): Resolve => {
  let resolver: dns.Resolver | undefined;
  let madeAt = 0;
  const asking = new Map<string, Promise<readonly string[]>>();

  const current = (): dns.Resolver => {
    if (resolver === undefined || clock.monotonic() - madeAt > RENEW_MS) {
      resolver = new dns.Resolver(QUERY);
      if (servers !== undefined) resolver.setServers(servers);
      madeAt = clock.monotonic();
    }
    return resolver;
  };
  const ask = async (name: string): Promise<readonly string[]> => {
    const [four, six] = await Promise.allSettled([current().resolve4(name), current().resolve6(name)]);
    const found = [four, six].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length > 0) return found;
    throw failure(name, [four, six]);
  };
  return (name, signal) => {
    let question = asking.get(name);
    if (question === undefined) {
      question = ask(name).finally(() => asking.delete(name));
      asking.set(name, question);
    }
    return abortable(question, signal);
  };
};

/** Returns addresses of a name in the hosts file; `localhost` has its own even without a line (RFC 6761). Never rejects. */
export const hostsFile = async (name: string, path = HOSTS_PATH): Promise<readonly string[]> => {
  const text = await readFile(path, "utf8").catch(() => "");
  const found = text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    return names.some((one) => one.toLowerCase() === name) && parseAddress(address) !== undefined ? [address] : [];
  });
  return found.length === 0 && name === "localhost" ? ["127.0.0.1", "::1"] : [...new Set(found)];
};

const HOSTS_PATH =
  process.platform === "win32"
    ? `${process.env["SystemRoot"] ?? "C:\\Windows"}\\System32\\drivers\\etc\\hosts`
    : "/etc/hosts";

/** Waits for `promise`, but no longer than the signal allows. A later result is dropped silently. */
export const abortable = async <T>(promise: Promise<T>, signal: AbortSignal): Promise<T> => {
  signal.throwIfAborted();
  const found = await unlessAborted(signal, promise);
  signal.throwIfAborted();
  return found as T;
};

const failure = (name: string, answers: readonly PromiseSettledResult<unknown>[]): ConnectError => {
  const codes = answers.flatMap((answer) => {
    const code: unknown = answer.status === "rejected" ? (answer.reason as NodeJS.ErrnoException).code : undefined;
    return typeof code === "string" ? [code] : [];
  });
  // The more telling code: "no such record" of one family must not hide the other's error.
  const code = codes.find((one) => one !== "ENODATA" && one !== "ENOTFOUND") ?? codes[0] ?? "ENODATA";
  const reason = `DNS_${code.replace(/^E/, "")}`;
  const nothing = code === "ENOTFOUND" || code === "ENODATA";
  const said = nothing ? `${name} has no address` : `${name} cannot be resolved (${code})`;
  return new ConnectError("dns", `${said}: ${nextStep(reason)}`, reason);
};

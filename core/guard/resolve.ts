/** From a name to its addresses: DNS through c-ares, and the hosts file for the names that an operator allows. */
import { promises as dns } from "node:dns";
import { readFile } from "node:fs/promises";
import { ConnectError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { parseAddress } from "./ip-address.ts";

/** Every address of a name, both families. @throws ConnectError `dns`, or the signal's reason */
export type Resolve = (name: string, signal: AbortSignal) => Promise<readonly string[]>;

/** How long one question to one server waits, and how often it is asked. The attempt's own deadline ends it sooner. */
const QUERY = { timeout: 2_000, tries: 2 } as const;
/** `resolv.conf` is read when a resolver is made: make a new one now and then, so that a changed file is noticed. */
const RENEW_MS = 30_000;

/**
 * Asks DNS for A and AAAA at once. Not `dns.lookup`: that one shares four threads with the file system, where a few dead
 * names hold up everybody. Search domains are never appended. Callers that ask for one name at the same time share the
 * question; nothing is remembered after the answer.
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
    throw failure(
      name,
      four.status === "rejected" ? four.reason : undefined,
      six.status === "rejected" ? six.reason : undefined,
    );
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

/** Addresses that the hosts file gives a name; `localhost` has its own even without a line (RFC 6761). Never rejects. */
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

/** Waits for `promise`, but no longer than the signal allows. What comes too late is dropped in silence. */
export const abortable = async <T>(promise: Promise<T>, signal: AbortSignal): Promise<T> => {
  signal.throwIfAborted();
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
};

const failure = (name: string, ...errors: readonly unknown[]): ConnectError => {
  const codes = errors.flatMap((error) =>
    error instanceof Error && "code" in error && typeof error.code === "string" ? [error.code] : [],
  );
  // The one that says more: "no such record" of one family hides nothing of the other.
  const code = codes.find((one) => one !== "ENODATA" && one !== "ENOTFOUND") ?? codes[0] ?? "ENODATA";
  const reason = `DNS_${code.replace(/^E/, "")}`;
  const nothing = code === "ENOTFOUND" || code === "ENODATA";
  return new ConnectError("dns", nothing ? `${name} has no address` : `${name} cannot be resolved (${code})`, reason);
};

/** Says which parts of the relay are ready: asked at each probe, so every part answers from what it knows. */
import type { HealthPart } from "../../api/resources/health.ts";
import { within } from "../../lib/within.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Publisher } from "../../publish/accept.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { OpenPorts } from "./open-ports.ts";

type Parts = Readonly<Record<string, HealthPart>>;
/** Never rejects. */
export type ReadParts = () => Promise<Parts>;

/** Longest wait for the storage, ms. */
const SOON_MS = 2_000;
/** Longest state of a part. */
const LONGEST = 200;

/** Names of the sources' and transports' parts, in the order of the config: `source:http`, and `source:http#2` for a second. */
export const partNames = ({ sources, transports }: Pick<Plan, "sources" | "transports">): readonly string[] => [
  ...namesOf("source", sources),
  ...namesOf("transport", transports),
];

function namesOf(kind: string, plugins: readonly { readonly name: string }[]): readonly string[] {
  const seen = new Map<string, number>();
  return plugins.map(({ name }) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? `${kind}:${name}` : `${kind}:${name}#${count}`;
  });
}

/** The state of each plug-in that says anything of it, or has failed within the last minute. */
function pluginParts(
  { sources, transports, hide, incidents }: Pick<OpenPorts, "sources" | "transports" | "hide" | "incidents">,
  plan: Pick<Plan, "sources" | "transports" | "server">,
): Parts {
  const parts: Record<string, HealthPart> = {};
  const names = partNames(plan);
  for (const [i, port] of [...sources, ...transports].entries()) {
    if (port.readiness === undefined) continue;
    const name = names[i] as string;
    const why = port.readiness();
    const needed = plan.server.readyNeeds?.includes(name) ? {} : { required: false };
    parts[name] = why === undefined ? { ready: true, ...needed } : { ready: false, state: plain(hide(why)), ...needed };
  }
  for (const [name, why] of incidents.recent()) {
    if (parts[name]?.ready === false) continue;
    parts[name] = { ready: false, state: plain(hide(why)), required: false };
  }
  return parts;
}

/** A storage may answer and take no commit: a quota, a server that is full, a disk that is read-only. */
function storagePart(answers: boolean, trouble: string | undefined): HealthPart {
  if (!answers) return { ready: false, state: "does not answer" };
  return trouble === undefined ? { ready: true } : { ready: false, state: trouble, required: false };
}

/** Without space nothing gets in; a backlog or a slow storage asks publishers to wait, on every node alike. */
const publishingPart = ({ code, detail }: NonNullable<Refusing>): HealthPart => ({
  ...{ ready: false, state: plain(`${code}: ${detail}`) },
  ...(code !== "STORAGE_FULL" && { required: false }),
});
type Refusing = Awaited<ReturnType<Publisher["refusing"]>>;

/**
 * The state of each part. Sources and transports that never say anything of it have no part; a plug-in of any kind that has
 * failed within the last minute has one, and publishing while it is refused. Never rejects.
 */
export async function readiness(
  ports: OpenPorts,
  plan: Pick<Plan, "sources" | "transports" | "server">,
  state: ReturnType<Lifecycle["state"]>,
  publisher: Pick<Publisher, "refusing">,
): Promise<Parts> {
  const { storage, auth, trouble } = ports;
  const { clock } = ports.starting;
  const plugins = pluginParts(ports, plan);
  let refusing: Refusing;
  const looked = publisher.refusing().then((rule) => (refusing = rule));
  const [answers] = await Promise.all([
    within(clock, SOON_MS, storage.status()).catch(() => false),
    within(clock, SOON_MS, looked),
  ]);
  const ready: HealthPart = auth.ready() ? { ready: true } : { ready: false, state: "has no keys yet" };
  return {
    relay: { ready: state === "running", state },
    storage: storagePart(answers, trouble()),
    auth: ready,
    ...(refusing !== undefined && { publishing: publishingPart(refusing) }),
    ...plugins,
  };
}

/** One line without control characters, cut. */
const plain = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, LONGEST);

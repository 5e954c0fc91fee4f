/** Says what needs attention, the worst first: why, since when, what helps, and the button for that. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { ReplayFailed } from "../forms/replay.tsx";
import { ask, path } from "../state/api.ts";
import { count, reason } from "../state/format.ts";
import { type LoadState, useAsk, useEvery } from "../state/load.ts";
import { isPortal } from "../state/page-facts.ts";
import { to } from "../state/route.ts";
import { may } from "../state/token.ts";
import type { Attention, FailureGroup } from "../shapes.ts";
import { badge, Button, link, problem, showFailure, showToast, useAction, When } from "./elements.tsx";

/** How many are shown before somebody asks for all. */
const FIRST = 10;
const REFRESH_MS = 30_000;
/** When the list is read again because of an attempt, ms: once for all of them. */
const CALM_MS = 10_000;

/** The words of states that do not say it by themselves. */
const WORDS: Readonly<Partial<Record<Attention["state"], string>>> = {
  disabled: "disabled by the relay",
  held: "order held",
  rate_limited: "waits for its rate limit",
  secret_ending: "old secret ends",
  certificate_ending: "certificate ends",
  source_away: "source away",
  transport_away: "connection away",
  publishing_refused: "publishing refused",
  not_ready: "not ready",
};

type AttentionLoad = LoadState<{
  readonly data: readonly Attention[];
  readonly meta: { readonly nextCursor?: string };
}>;

/** Reads what needs attention of a key, of one subscription of it, or of the relay and all its keys. */
export function useAttention(keyId?: string, subscriptionId?: string): AttentionLoad {
  const route =
    keyId === undefined ? "/relay/attention?limit=200" : path("/api-keys/{}/attention", [keyId], { subscriptionId });
  const load = useAsk<readonly Attention[]>(route, ({ event }) => {
    if (event === "attempt") return CALM_MS;
    return event !== "event" && 1_000;
  });
  useEvery(load.again, REFRESH_MS);
  return load;
}

interface ListProps {
  readonly load: AttentionLoad;
  /** Of one subscription, which is named already. */
  readonly one?: boolean;
  /** Of several keys. */
  readonly wide?: boolean;
}

export const NeedsAttention = ({ load: { data, error, again }, one = false, wide = false }: ListProps) => {
  const [whole, setWhole] = useState(false);
  const all = data?.data ?? [];
  const open = all.filter(({ acknowledged }) => acknowledged === undefined);
  const known = all.filter(({ acknowledged }) => acknowledged !== undefined);
  const items = (some: readonly Attention[]): VNode => (
    <ul class="issues">
      {some.map((item) => (
        <Issue key={`${item.keyId} ${item.id}`} item={item} again={again} one={one} wide={wide} />
      ))}
    </ul>
  );
  if (one && all.length === 0) return problem(error, again);
  return (
    <section class="card" aria-labelledby="attention">
      <h2 id="attention">
        Needs attention {open.length > 0 && <span class="badge is-failing">{count(open.length)}</span>}
      </h2>
      {problem(error, again)}
      {data === undefined && error === undefined && <p class="quiet">Looking…</p>}
      {data !== undefined && open.length === 0 && <p>{badge("healthy", "nothing")}</p>}
      {open.length > 0 && items(whole ? open : open.slice(0, FIRST))}
      {open.length > FIRST && !whole && <Button text={`Show all ${count(open.length)}`} act={() => setWhole(true)} />}
      {data?.meta.nextCursor !== undefined && (
        <p class="quiet">There is more on other keys: open a key, or ask “relay attention”, which lists all.</p>
      )}
      {known.length > 0 && (
        <details>
          <summary>{`${count(known.length)} acknowledged`}</summary>
          {items(known)}
        </details>
      )}
    </section>
  );
};

interface IssueProps {
  readonly item: Attention;
  readonly again: () => void;
  readonly one: boolean;
  /** The list is of several keys. */
  readonly wide: boolean;
}

/** The time is shown beside the words, as it runs. */
const wordsOf = (text: string): string => text.replace(/; the next try is at \S+$/, "");

const Issue = ({ item, again, one, wide }: IssueProps) => {
  const { state, severity, keyId, subscriptionId, subscriptionName, part, node, failures = [] } = item;
  const { since, nextAttemptAt: next, endsAt, help } = item;
  const sub =
    keyId === undefined || subscriptionId === undefined ? undefined : [keyId, "subscriptions", subscriptionId];
  const name = subscriptionName ?? subscriptionId ?? part ?? "";
  const why = [wordsOf(item.reason), ". ", <span class="quiet">{help}</span>];
  return (
    <li class={`issue is-${severity}`}>
      <p class="row">
        {badge(severity === "error" ? "failing" : "degraded", WORDS[state] ?? state)}
        {!one && <strong>{sub === undefined ? name : link(to(["k", ...sub]), name)}</strong>}
        {wide && keyId !== undefined && <code>{keyId}</code>}
        {node !== undefined && <span class="quiet">{`on ${node}`}</span>}
        {next !== undefined && (
          <span>
            next try <When at={next} />
          </span>
        )}
        {(endsAt ?? since) !== undefined && (
          <span class="quiet">
            {endsAt === undefined ? "began " : "ends "}
            <When at={endsAt ?? since ?? ""} />
          </span>
        )}
      </p>
      <Helpers item={item} again={again} one={one} />
      {failures.length === 0 ? (
        <p>{why}</p>
      ) : (
        <details>
          <summary>{why}</summary>
          <Failures all={failures} keyId={keyId} />
        </details>
      )}
    </li>
  );
};

const kindOf = ({ statusCode, error, detail }: FailureGroup): string =>
  statusCode !== undefined ? `HTTP ${statusCode}` : error !== undefined ? reason(error) : (detail ?? "no answer");

/** Failures that are alike, each with how often, when, and the newest one. */
const Failures = ({ all, keyId }: { readonly all: readonly FailureGroup[]; readonly keyId: string | undefined }) => (
  <ul class="failures">
    {all.map((one) => (
      <li key={kindOf(one) + one.first}>
        <b>{`${count(one.count)} × ${kindOf(one)}`}</b>
        {one.detail !== undefined && one.detail !== kindOf(one) && `: ${one.detail}`}
        {" · first "}
        <When at={one.first} />
        {", last "}
        <When at={one.last} />
        {keyId !== undefined && [" · ", link(to(["k", keyId, "events", one.example.eventId]), "the newest one")]}
      </li>
    ))}
  </ul>
);

/** The button that helps with each state, the way to what failed, and the acknowledgement. */
const Helpers = ({ item, again, one }: Omit<IssueProps, "wide">) => {
  const { id, state, keyId, subscriptionId, acknowledged, failed = 0 } = item;
  const [replaying, setReplaying] = useState(false);
  const { run, busy } = useAction(async (_, what: "enable" | "acknowledge") => {
    await change(item, what).catch(showFailure);
    again();
  });
  const own = keyId !== undefined && subscriptionId !== undefined && ["k", keyId, "subscriptions", subscriptionId];
  const helps = (): ComponentChildren => {
    if (!own) return null;
    if ((state === "down" || state === "failing") && failed > 0)
      return <Button text="Replay failed…" class="small" act={() => setReplaying(true)} />;
    // On its own page its menu has the rest.
    if (one) return null;
    if (state === "disabled") return <Button text="Enable" class="small" off={busy} act={(by) => run(by, "enable")} />;
    return link(
      to(own),
      state === "held" ? "Skip or replay" : state === "down" ? "Test it" : "Settings",
      "button small",
    );
  };
  return (
    <div class="row">
      {may("change") && helps()}
      {own && failed > 0 && link(to([...own, "deliveries"], { status: "failed" }), failedText(item), "button small")}
      {may("change") && !isPortal && (
        <Button
          text={acknowledged === undefined ? "Acknowledge" : "Take back"}
          label={`${acknowledged === undefined ? "Acknowledge" : "Take back"}: ${item.subscriptionName ?? id}`}
          class="small plain"
          title={acknowledged && `By ${acknowledged.by ?? "somebody"}`}
          off={busy}
          act={(by) => run(by, "acknowledge")}
        />
      )}
      {replaying && own && (
        <ReplayFailed keyId={keyId} only={subscriptionId} period="" close={() => setReplaying(false)} />
      )}
    </div>
  );
};

const failedText = ({ failed = 0, failedMore }: Attention): string =>
  `See ${count(failed)}${failedMore === true ? "+" : ""} failed`;

async function change({ id, keyId, subscriptionId = "", acknowledged }: Attention, what: "enable" | "acknowledge") {
  if (what === "enable") {
    await ask("PATCH", path("/api-keys/{}/webhooks/{}", [keyId ?? "", subscriptionId]), { body: { status: "active" } });
    return showToast("Enabled: replay now what failed");
  }
  const base = keyId === undefined ? "/relay" : path("/api-keys/{}", [keyId]);
  const body = { id, acknowledged: acknowledged === undefined };
  await ask("POST", `${base}/attention/acknowledge`, { body });
  showToast(acknowledged === undefined ? "Acknowledged, until it changes" : "Open again");
}

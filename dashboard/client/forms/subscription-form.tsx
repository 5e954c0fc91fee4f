/** The form to create or change a subscription: the same fields. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { FormDialog } from "../kit/dialog.tsx";
import { EventNames } from "../kit/event-types-input.tsx";
import { type Bound, errorOf, Field, milliseconds, numeric, Select, useTexts } from "../kit/fields.tsx";
import { filterText, readFilter } from "./filter-test.tsx";
import { type HeaderLine, HeadersInput, headerRow, headersOf } from "./headers-input.tsx";
import { notice, showToast, useAction } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import { orderFields, orderOf, pathText } from "./order.tsx";
import { secretKeeper } from "../kit/secret.tsx";
import type { Secreted, Subscription } from "../shapes.ts";
import { clashOf, patchOf, type Settings } from "./subscription-changes.ts";

interface FormProps {
  readonly keyId: string;
  /** The subscription to change; absent to create one. */
  readonly one?: Subscription;
  readonly close: () => void;
  readonly saved: () => void;
}

const shown = (value: number | undefined): string => (value === undefined ? "" : String(value));
const inSeconds = (ms: number | undefined): string => (ms === undefined ? "" : String(ms / 1_000));
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : url);

const loadTransforms = async (signal: AbortSignal): Promise<readonly string[]> =>
  (await ask<readonly { readonly name: string }[]>("GET", "/transforms", { signal })).data.map(({ name }) => name);

export const SubscriptionForm = ({ keyId, one, close, saved }: FormProps) => {
  const retry = one?.retry;
  const listed = retry !== undefined && "delaysMs" in retry ? retry.delaysMs : [];
  const backoff = retry !== undefined && "factor" in retry ? retry : undefined;
  const [texts, bindText] = useTexts({
    url: one?.url ?? "https://",
    filter: filterText(one?.filter),
    transform: one?.transform ?? "",
    description: one?.description ?? "",
    order: one?.ordered === true ? (one.onFailed ?? "skip") : "none",
    orderBy: pathText(one?.orderBy),
    rateLimit: shown(one?.rateLimit?.perSecond),
    timeoutMs: inSeconds(one?.timeoutMs),
    "retry.attempts": shown(backoff?.attempts),
    "retry.firstDelayMs": inSeconds(backoff?.firstDelayMs),
    "retry.factor": shown(backoff?.factor),
    "retry.maxDelayMs": inSeconds(backoff?.maxDelayMs),
    "retry.delaysMs": listed.map(inSeconds).join(", "),
  });
  const [events, setEvents] = useState<readonly string[]>(one?.events ?? []);
  const [headers, setHeaders] = useState<readonly HeaderLine[]>(
    Object.keys(one?.headers ?? {}).map((name) => headerRow(name, true)),
  );
  const { data: known = [] } = useLoad(loadTransforms, []);
  const transforms = [...new Set([...known, texts.transform])].filter((name) => name !== "");
  // Only at first: it must not close when a field is cleared.
  const [tuned] = useState(one !== undefined && [one.rateLimit, one.timeoutMs, retry].some((set) => set !== undefined));
  const moved =
    one !== undefined &&
    originOf(texts.url) !== originOf(one.url) &&
    headers.some(({ stored, value }) => stored && value === "");

  /** @throws Error for a text that is no number, path or filter */
  function settings(): Settings {
    const { url, filter, transform, description, order, orderBy, rateLimit, timeoutMs, ...rest } = texts;
    const perSecond = numeric(rateLimit);
    const waits = rest["retry.delaysMs"];
    // What is left empty is filled by the relay.
    const own = {
      attempts: numeric(rest["retry.attempts"]),
      firstDelayMs: milliseconds(rest["retry.firstDelayMs"]),
      factor: numeric(rest["retry.factor"]),
      maxDelayMs: milliseconds(rest["retry.maxDelayMs"]),
      delaysMs: waits.trim() === "" ? undefined : waits.split(",").map(milliseconds),
    };
    return {
      url: url.trim(),
      events,
      description: description.trim() || undefined,
      rateLimit: perSecond === undefined ? undefined : { perSecond },
      timeoutMs: milliseconds(timeoutMs),
      retry: Object.values(own).some((value) => value !== undefined) ? own : undefined,
      headers: headersOf(headers),
      filter: readFilter(filter),
      transform: transform || undefined,
      ...orderOf(order, orderBy),
    };
  }
  const [before] = useState(settings);
  /** As the person knows it: as it was when the form was opened, or as the last refusal told it. */
  const [seen, setSeen] = useState(one);

  const action = useAction(async (wanted) => {
    const now = settings();
    if (seen === undefined) {
      const show = secretKeeper();
      const { data, meta } = await ask<Secreted>("POST", path("/api-keys/{}/webhooks", [keyId]), { body: now, wanted });
      show({ ...data, warnings: meta.warnings });
      return saved();
    }
    const route = path("/api-keys/{}/webhooks/{}", [keyId, seen.id]);
    // The API has no precondition for an update: what others have changed until now is looked at first.
    const { data: stored } = await ask<Subscription>("GET", route, { wanted });
    const body = patchOf(before, now, stored);
    const clash = clashOf(body, seen, stored);
    if (clash !== undefined) {
      setSeen({ ...seen, ...clash.now });
      throw clash.refusal;
    }
    const changes = Object.keys(body).length > 0;
    if (changes) await ask("PATCH", route, { body, wanted });
    showToast(changes ? "Saved" : "Nothing was changed");
    saved();
  });

  const { error } = action;
  const bind = (name: keyof typeof texts): Bound => bindText(name, error);
  const number = { inputMode: "decimal", optional: true } as const;

  return (
    <FormDialog
      title={one === undefined ? "Create a subscription" : "Edit the subscription"}
      close={close}
      wide
      action={action}
      yes={one === undefined ? "Create" : "Save"}
    >
      <Field
        label="URL"
        {...bind("url")}
        type="url"
        inputMode="url"
        focus
        hint="HTTPS, and an address that the relay may call."
      />
      {moved &&
        notice("warn", "At another origin the stored header values are dropped. Enter them again, or remove them.")}
      <EventNames chosen={events} change={setEvents} error={errorOf(error, "events")} />
      <Field
        label="Filter"
        {...bind("filter")}
        optional
        lines={3}
        hint={[
          "JSON, such as ",
          <code>{'{"path": "data.currency", "equals": "EUR"}'}</code>,
          ". Empty: every event that the names match.",
        ]}
      />
      {transforms.length > 0 && (
        <Select
          label="Transform"
          {...bind("transform")}
          options={[["", "none: the event as it is"], ...transforms.map((name) => [name, name] as const)]}
          hint="Makes the body of each delivery. The operator of the relay writes them."
        />
      )}
      {orderFields(bind)}
      <Field label="Description" {...bind("description")} optional maxLength={1_000} />
      <HeadersInput lines={headers} change={setHeaders} error={errorOf(error, "headers")} />
      <details open={tuned}>
        <summary>Rate limit, time-out and retries</summary>
        <div class="grid">
          <Field
            label="Deliveries a second, at most"
            {...bind("rateLimit")}
            {...number}
            hint="Each node of the relay applies it by itself. Empty: as fast as you answer."
          />
          <Field label="Time-out in seconds" {...bind("timeoutMs")} {...number} hint="1 to 30. Empty: the default." />
          <Field
            label="Attempts in all"
            {...bind("retry.attempts")}
            {...number}
            inputMode="numeric"
            hint="1 to 5. Empty: the default."
          />
          <Field label="First wait in seconds" {...bind("retry.firstDelayMs")} {...number} />
          <Field label="Factor from one wait to the next" {...bind("retry.factor")} {...number} />
          <Field label="Longest wait in seconds" {...bind("retry.maxDelayMs")} {...number} />
          <Field
            label="Or the waits themselves, in seconds"
            {...bind("retry.delaysMs")}
            optional
            hint="1 to 4, such as 5, 300, 1800, 7200: instead of the four fields above."
          />
        </div>
      </details>
    </FormDialog>
  );
};

/** The form to create or change a subscription: the same fields. */
import { useId, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { FormDialog } from "../kit/dialog.tsx";
import { EventNames } from "../kit/event-types-input.tsx";
import { below, type Bind, Field, milliseconds, numeric, Select, useForm } from "../kit/fields.tsx";
import { FilterBuilder } from "./filter-builder.tsx";
import { filterText, readFilter, TransformPreview } from "./testers.tsx";
import { Button, notice, showToast } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import { orderFields, orderOf, pathText } from "./order.tsx";
import { secretKeeper } from "../kit/once.tsx";
import type { KeyDialogProps, Secreted, Subscription } from "../shapes.ts";
import { clashOf, patchOf, type Settings } from "./subscription-changes.ts";

interface FormProps extends KeyDialogProps {
  /** The subscription to change; absent to create one. */
  readonly one?: Subscription;
  readonly saved: (made: Subscription) => void;
}

const shown = (value: number | undefined): string => (value === undefined ? "" : String(value));
const inSeconds = (ms: number | undefined): string => (ms === undefined ? "" : String(ms / 1_000));
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : url);

/** Returns what the fields show at first, under the names of the API. */
function textsOf(one: Partial<Subscription> = {}) {
  const { retry } = one;
  const listed = retry !== undefined && "delaysMs" in retry ? retry.delaysMs : [];
  const backoff = retry !== undefined && "factor" in retry ? retry : undefined;
  return {
    url: one.url ?? "https://",
    filter: filterText(one.filter),
    transform: one.transform ?? "",
    description: one.description ?? "",
    order: one.ordered === true ? (one.onFailed ?? "skip") : "none",
    orderBy: pathText(one.orderBy),
    rateLimit: shown(one.rateLimit?.perSecond),
    timeoutMs: inSeconds(one.timeoutMs),
    "retry.attempts": shown(backoff?.attempts),
    "retry.firstDelayMs": inSeconds(backoff?.firstDelayMs),
    "retry.factor": shown(backoff?.factor),
    "retry.maxDelayMs": inSeconds(backoff?.maxDelayMs),
    "retry.delaysMs": listed.map(inSeconds).join(", "),
  };
}
type Texts = Readonly<ReturnType<typeof textsOf>>;

/** @throws Error for a text that is no number, path or filter */
function settingsOf(texts: Texts, events: readonly string[], headers: readonly HeaderLine[]): Settings {
  const { url, filter, transform, description, order, orderBy, rateLimit, timeoutMs, ...rest } = texts;
  const perSecond = numeric(rateLimit);
  const waits = rest["retry.delaysMs"];
  // The relay fills in what is left empty.
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

/**
 * Keeps what is typed, and saves it.
 * @throws ApiRefusal when it is sent while somebody else has changed the same
 */
function useSubscriptionForm({ keyId, one, saved }: FormProps) {
  const [events, setEvents] = useState<readonly string[]>(one?.events ?? []);
  const [headers, setHeaders] = useState<readonly HeaderLine[]>(
    Object.keys(one?.headers ?? {}).map((name) => headerRow(name, true)),
  );
  const [before] = useState(() => settingsOf(textsOf(one), events, headers));
  /** As the person knows it: as it was when the form was opened, or as the last refusal said. */
  const [seen, setSeen] = useState(one);
  const form = useForm<keyof Texts>(textsOf(one), async (texts, wanted) => {
    const now = settingsOf(texts as Texts, events, headers);
    if (seen === undefined) {
      const show = secretKeeper();
      const { data, meta } = await ask<Secreted>("POST", path("/api-keys/{}/webhooks", [keyId]), { body: now, wanted });
      show({ ...data, warnings: meta.warnings });
      return saved(data);
    }
    const route = path("/api-keys/{}/webhooks/{}", [keyId, seen.id]);
    // The API has no precondition for an update: what others have changed until now is read first.
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
    saved(stored);
  });
  return { form, events, setEvents, headers, setHeaders };
}

export const SubscriptionForm = (props: FormProps) => {
  const { one, close } = props;
  const { form, events, setEvents, headers, setHeaders } = useSubscriptionForm(props);
  const { texts, of } = form;
  const known = useAsk<readonly { readonly name: string }[]>("/transforms").data?.data ?? [];
  const names = [...known.map(({ name }) => name), texts.transform];
  const transforms = [...new Set(names)].filter((name) => name !== "");
  // Only at first: it must not close when a field is cleared.
  const [tuned] = useState([one?.rateLimit, one?.timeoutMs, one?.retry].some((set) => set !== undefined));
  const moved =
    one !== undefined &&
    originOf(texts.url) !== originOf(one.url) &&
    headers.some(({ stored, value }) => stored && value === "");
  return (
    <FormDialog
      title={one === undefined ? "Create a subscription" : "Edit the subscription"}
      close={close}
      wide
      form={form}
      yes={one === undefined ? "Create" : "Save"}
    >
      <Field
        {...of("url", "URL")}
        type="url"
        inputMode="url"
        focus
        hint="HTTPS, and an address that the relay may call."
      />
      {moved &&
        notice("warn", "At another origin the stored header values are dropped. Enter them again, or remove them.")}
      <EventNames chosen={events} change={setEvents} error={form.wrong("events")} />
      <Field
        {...of("filter", "Filter")}
        optional
        lines={3}
        hint={[
          "JSON, such as ",
          <code>{'{"path": "data.currency", "equals": "EUR"}'}</code>,
          ". Empty: every event that the names match.",
        ]}
      />
      <FilterBuilder
        keyId={props.keyId}
        text={texts.filter}
        change={(filter) => form.set({ filter })}
        events={events}
      />
      {transforms.length > 0 && (
        <Select
          {...of("transform", "Transform")}
          options={[["", "none: the event as it is"], ...transforms.map((name) => [name, name] as const)]}
          hint="Makes the body of each delivery. The operator of the relay writes them."
        />
      )}
      {one !== undefined && texts.transform !== "" && (
        <TransformPreview key={texts.transform} keyId={props.keyId} id={one.id} transform={texts.transform} />
      )}
      {orderFields(of, texts.order)}
      <Field {...of("description", "Description")} optional maxLength={1_000} />
      <HeadersInput lines={headers} change={setHeaders} error={form.wrong("headers")} />
      <details open={tuned}>
        <summary>Rate limit, time-out and retries</summary>
        <div class="grid">{pace(of)}</div>
      </details>
    </FormDialog>
  );
};

/** Returns the fields of how fast and how often deliveries are tried. */
const pace = (of: Bind<keyof Texts>) => {
  const number = (name: keyof Texts, label: string, hint?: string, inputMode: "decimal" | "numeric" = "decimal") => (
    <Field {...of(name, label)} inputMode={inputMode} optional hint={hint} />
  );
  const each = "Each node of the relay applies it by itself. Empty: as fast as you answer.";
  return [
    number("rateLimit", "Deliveries a second, at most", each),
    number("timeoutMs", "Time-out in seconds", "1 to 30. Empty: the default."),
    number("retry.attempts", "Attempts in all", "1 to 5. Empty: the default.", "numeric"),
    number("retry.firstDelayMs", "First wait in seconds"),
    number("retry.factor", "Factor from one wait to the next"),
    number("retry.maxDelayMs", "Longest wait in seconds"),
    <Field
      {...of("retry.delaysMs", "Or the waits themselves, in seconds")}
      optional
      hint="1 to 4, such as 5, 300, 1800, 7200: instead of the four fields above."
    />,
  ];
};

interface HeaderLine {
  readonly id: number;
  readonly name: string;
  readonly value: string;
  /** It has a stored value, which stays unless a new one is typed. */
  readonly stored: boolean;
}

interface HeadersProps {
  readonly lines: readonly HeaderLine[];
  readonly change: (lines: readonly HeaderLine[]) => void;
  readonly error?: string | undefined;
}

let next = 0;
const headerRow = (name = "", stored = false): HeaderLine => ({ id: next++, name, value: "", stored });

/** Returns the headers for the API: `null` keeps a stored value. `undefined`: there are none. */
function headersOf(lines: readonly HeaderLine[]): Record<string, string | null> | undefined {
  const named = lines.filter(({ name }) => name.trim() !== "");
  if (named.length === 0) return undefined;
  return Object.fromEntries(
    named.map(({ name, value, stored }) => [name.trim(), stored && value === "" ? null : value]),
  );
}

const HeadersInput = ({ lines, change, error }: HeadersProps) => {
  const id = useId();
  const set = (at: number, what: Partial<HeaderLine>): void =>
    change(lines.map((line) => (line.id === at ? { ...line, ...what } : line)));
  const value = (event: Event): string => (event.currentTarget as HTMLInputElement).value;
  const hint = "Sent with every delivery. Values are encrypted at rest, and never shown again.";
  const { linked, lines: notes } = below(id, hint, error);
  return (
    <fieldset class="field" aria-describedby={linked["aria-describedby"]}>
      <legend>
        Custom headers
        <span class="quiet"> optional</span>
      </legend>
      {lines.map((line, i) => (
        <div key={line.id} class="row header-line">
          <input
            aria-label={`Name of header ${i + 1}`}
            value={line.name}
            placeholder="X-Api-Token"
            autoComplete="off"
            spellcheck={false}
            onInput={(event: Event) => set(line.id, { name: value(event), stored: false })}
          />
          <input
            aria-label={`Value of header ${i + 1}`}
            type="password"
            value={line.value}
            placeholder={line.stored ? "stored; left as it is" : "value"}
            autoComplete="off"
            onInput={(event: Event) => set(line.id, { value: value(event) })}
          />
          <Button text="✕" label={`Remove header ${i + 1}`} act={() => change(lines.filter((one) => one !== line))} />
        </div>
      ))}
      <div class="row">
        <Button text="Add a header" act={() => change([...lines, headerRow()])} />
      </div>
      {notes}
    </fieldset>
  );
};

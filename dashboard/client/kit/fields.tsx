/** Builds form fields: a label, a hint and an error, linked for people who cannot see them. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiRefusal } from "../state/api.ts";
import { type Action, Button, showFailure, useAction } from "./elements.tsx";

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly type?: "text" | "password" | "url" | "datetime-local";
  readonly autocomplete?: string;
  readonly inputMode?: "numeric" | "url" | "text" | "decimal";
  readonly placeholder?: string;
  readonly focus?: boolean;
  readonly optional?: boolean;
  readonly lines?: number;
  readonly maxLength?: number;
  /** Values that the browser offers. */
  readonly offers?: readonly string[];
}

/** A field for a code of a second factor. */
export const CODE = { inputMode: "numeric", autocomplete: "one-time-code" } as const;

/** Returns the lines that stand below a field, and the attributes that have them read out with the field. */
export function below(id: string, hint: ComponentChildren, error: string | undefined) {
  const [hintId, errorId] = [`${id}-hint`, `${id}-error`];
  const about = [hint !== undefined && hintId, error !== undefined && errorId].filter(Boolean).join(" ");
  return {
    linked: { "aria-describedby": about || undefined, "aria-invalid": error === undefined ? undefined : true },
    lines: [
      hint !== undefined && (
        <p id={hintId} class="hint">
          {hint}
        </p>
      ),
      error !== undefined && (
        <p id={errorId} class="wrong">
          {error}
        </p>
      ),
    ],
  };
}

export const Field = ({ label, value, change, hint, error, focus, optional, lines, ...rest }: FieldProps) => {
  const id = useId();
  const input = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (focus) input.current?.focus();
  }, []);
  const { linked, lines: notes } = below(id, hint, error);
  const shared = {
    id,
    ref: input,
    value,
    placeholder: rest.placeholder,
    maxLength: rest.maxLength,
    autoFocus: focus,
    autoComplete: rest.autocomplete ?? "off",
    autoCapitalize: "none",
    spellcheck: false,
    ...linked,
    onInput: (event: Event) => change((event.currentTarget as HTMLInputElement).value),
  } as const;
  return (
    <div class="field">
      <label htmlFor={id}>
        {label}
        {optional && <span class="quiet"> optional</span>}
      </label>
      {lines === undefined ? (
        <input
          {...shared}
          type={(rest.type ?? "text") as "text"}
          inputMode={rest.inputMode}
          list={rest.offers === undefined ? undefined : `${id}-offers`}
        />
      ) : (
        <textarea {...shared} rows={lines} />
      )}
      {rest.offers !== undefined && (
        <datalist id={`${id}-offers`}>
          {rest.offers.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </datalist>
      )}
      {notes}
    </div>
  );
};

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  /** Hides the label visually, because its neighbours explain it. */
  readonly bare?: boolean;
  /** Loads the options; called when somebody is about to choose. */
  readonly load?: () => Promise<void>;
}

export const Select = ({ label, value, change, options, hint, error, bare, load }: SelectProps) => {
  const id = useId();
  const loading = useRef(false);
  // A click brings the focus with it: both are one reason to load.
  const open = (): void => {
    if (load === undefined || loading.current) return;
    loading.current = true;
    load()
      .catch(showFailure)
      .finally(() => (loading.current = false));
  };
  const { linked, lines } = below(id, hint, error);
  return (
    <div class="field">
      <label htmlFor={id} class={bare ? "hidden" : undefined}>
        {label}
      </label>
      <select
        id={id}
        value={value}
        {...linked}
        onChange={(event: Event) => change((event.currentTarget as HTMLSelectElement).value)}
        onFocus={open}
        onPointerDown={open}
      >
        {options.map(([one, text]) => (
          <option key={one} value={one} selected={one === value}>
            {text}
          </option>
        ))}
      </select>
      {lines}
    </div>
  );
};

/** Returns what the relay says is wrong with a field. */
function errorOf(error: unknown, name: string): string | undefined {
  if (!(error instanceof ApiRefusal)) return undefined;
  const found = error.errors.filter(
    ({ path }) => path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`),
  );
  return found.length === 0 ? undefined : found.map(({ message }) => message).join("; ");
}

/** The props of a field that is bound to a text. */
type Bound = Pick<FieldProps, "label" | "value" | "change" | "error">;
/** Binds a field to one of the texts. */
export type Bind<K extends string> = (name: K, label: string) => Bound;

export interface FormState<K extends string, T extends readonly unknown[] = []> extends Action<T> {
  readonly texts: Readonly<Record<K, string>>;
  readonly set: (texts: Partial<Readonly<Record<K, string>>>) => void;
  readonly of: Bind<K>;
  /** Returns what is wrong with a field that is no text. */
  readonly wrong: (name: string) => string | undefined;
}

/**
 * Keeps the texts of a form, each under the name by which the relay says what is wrong with it.
 * @param send does what the form is for
 */
export function useForm<K extends string, T extends readonly unknown[] = []>(
  first: Readonly<Record<K, string>>,
  send: (texts: Readonly<Record<K, string>>, wanted: AbortSignal, ...what: T) => Promise<void>,
): FormState<K, T> {
  const [texts, setTexts] = useState(first);
  const action = useAction<T>((wanted, ...what) => send(texts, wanted, ...what));
  const set = (some: object): void => setTexts((before) => ({ ...before, ...some }));
  const wrong = (name: string): string | undefined => errorOf(action.error, name);
  const of: Bind<K> = (name, label) => {
    return { label, value: texts[name], change: (text) => set({ [name]: text }), error: wrong(name) };
  };
  return { ...action, texts, set, of, wrong };
}

/**
 * An empty field clears what was set. A text that is no number must not: JSON would write it as `null`, which clears too.
 * @throws Error
 */
export function numeric(text: string): number | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`“${text.trim()}” is no number: write one as 20 or 2.5.`);
  return value;
}
/** Whole ones: `16.1 * 1000` is not 16100. */
export const milliseconds = (text: string): number | undefined => {
  const seconds = numeric(text);
  return seconds === undefined ? undefined : Math.round(seconds * 1_000);
};

type ChoiceProps = Pick<SelectProps, "label" | "value" | "options" | "change">;

/** A choice of a few, side by side. */
export const Choice = ({ label, value, options, change }: ChoiceProps) => (
  <div class="choice" role="group" aria-label={label}>
    {options.map(([one, text]) => (
      <Button key={one} text={text} pressed={one === value} act={() => change(one)} />
    ))}
  </div>
);

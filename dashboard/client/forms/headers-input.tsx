/** Edits static request headers: names are shown, stored values are not. */
import { useId } from "preact/hooks";
import { below } from "../kit/fields.tsx";

export interface HeaderLine {
  readonly id: number;
  readonly name: string;
  readonly value: string;
  /** Whether it has a stored value, which stays unless a new one is typed. */
  readonly stored: boolean;
}

interface HeadersProps {
  readonly lines: readonly HeaderLine[];
  readonly change: (lines: readonly HeaderLine[]) => void;
  readonly error?: string | undefined;
}

let next = 0;
export const headerRow = (name = "", stored = false): HeaderLine => ({ id: next++, name, value: "", stored });

/** Returns the headers for the API: `null` keeps a stored value. `undefined`: there are none. */
export function headersOf(lines: readonly HeaderLine[]): Record<string, string | null> | undefined {
  const named = lines.filter(({ name }) => name.trim() !== "");
  if (named.length === 0) return undefined;
  return Object.fromEntries(
    named.map(({ name, value, stored }) => [name.trim(), stored && value === "" ? null : value]),
  );
}

export const HeadersInput = ({ lines, change, error }: HeadersProps) => {
  const id = useId();
  const set = (at: number, what: Partial<HeaderLine>): void =>
    change(lines.map((line) => (line.id === at ? { ...line, ...what } : line)));
  const value = (event: Event): string => (event.currentTarget as HTMLInputElement).value;
  const hint = "Sent with every delivery. Values are encrypted at rest, and never shown again.";
  const { linked, lines: notes } = below(id, hint, error);
  return (
    <fieldset class="field" {...linked}>
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
          <button
            type="button"
            aria-label={`Remove header ${i + 1}`}
            onClick={() => change(lines.filter((one) => one !== line))}
          >
            ✕
          </button>
        </div>
      ))}
      <div class="row">
        <button type="button" onClick={() => change([...lines, headerRow()])}>
          Add a header
        </button>
      </div>
      {notes}
    </fieldset>
  );
};

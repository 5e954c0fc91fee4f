/** An event type as the config describes it: the schema of its data, an example, and what is done with data that differs. */

/** A JSON Schema 2020-12, as JSON. */
export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

/** What data that does not match its schema causes: nothing, a count and a log line, or a refusal. */
export type Validation = "off" | "warn" | "refuse";

/** An event type as the config describes it. */
export interface EventTypeOptions {
  /** The schema of `data`: JSON Schema 2020-12, without references to other documents. @default anything */
  readonly schema?: JsonSchema;
  /** A value of `data` that matches the schema: shown to subscribers, and sent as a test event. @default none */
  readonly example?: unknown;
  /** Tells what has happened when it is published, in a sentence for subscribers. @default none */
  readonly description?: string;
  /** Subscribers should not begin to use it. It is published and delivered as before. @default false */
  readonly deprecated?: boolean;
  /** Decides on data that does not match the schema. @default the config's `validate` */
  readonly validate?: Validation;
}

/** An event type with its defaults filled in: JSON only, so that it can cross to a process. */
export type EventType = Omit<EventTypeOptions, "validate"> & { readonly validate: Validation };

export type EventTypes = Readonly<Record<string, EventType>>;

/** Largest schema and example of one type, and of all types together, in bytes of JSON. */
export const MAX_TYPE_BYTES = 65_536;
export const MAX_TYPES_BYTES = 1_048_576;

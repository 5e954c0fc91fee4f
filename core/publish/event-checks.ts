/** What publishing needs of the schemas of event types: a judgement of each event's data. */

/** What is wrong with the data of an event, and where in the event. */
export interface Mismatch {
  readonly path: string;
  readonly message: string;
}

/** Judges data by the schema of its type. Takes time in proportion to the data, whatever the data is. */
export interface EventChecks {
  /** Gives the publication that is judged next its own share of time. */
  begin(): void;
  /** Returns why the event is refused, if it is. Data that differs under `"warn"` is counted and logged, and passes. */
  refusal(type: string, data: unknown): Mismatch | undefined;
}

/** What publishing needs of the schemas of event types: a judgement of each event's data. */

/** What is wrong with the data of an event, and where in the event. */
interface Mismatch {
  readonly path: string;
  readonly message: string;
}

/**
 * Returns why the event is refused, if it is. Data that differs under `"warn"` is counted and logged, and passes. Takes
 * time in proportion to the data, whatever the data is.
 */
export type EventCheck = (type: string, data: unknown) => Mismatch | undefined;

/** What is signed: one attempt of an event, as its receiver gets it. */
export interface Signable {
  readonly eventId: string;
  readonly type: string;
  readonly body: Uint8Array;
  /** 1…5 */
  readonly attempt: number;
  readonly cycle: number;
  readonly traceparent?: string;
}

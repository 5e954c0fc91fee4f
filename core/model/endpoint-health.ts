/** The health of an endpoint: its recent failures, and whether the circuit breaker pauses it. */

export interface EndpointHealth {
  /** Failed attempts since the last success. */
  readonly failures: number;
  /** Epoch ms of the first of them. */
  readonly failingSince?: number;
  /** Epoch ms until which the circuit breaker pauses it. */
  readonly restsUntil?: number;
}

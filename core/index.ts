/** Names for people who write plug-ins: the ports, the nouns they speak of, and the errors they may throw. */
export type * from "./ports/auth.ts";
export type * from "./ports/clock.ts";
export type * from "./ports/observer.ts";
export type * from "./ports/plugin.ts";
export type * from "./ports/route.ts";
export type * from "./ports/source.ts";
export type * from "./ports/storage.ts";
export type * from "./ports/transport.ts";
export type * from "./model/windows.ts";
export type { Attempt, AttemptError, Outcome } from "./model/attempt.ts";
export type { Delivery, DeliveryStatus, Due, EndReason, EventStatus } from "./model/delivery.ts";
export type { Filter, FilterPath, FilterValue } from "./model/filter.ts";
export type { MetricDeclaration } from "./ports/plugin.ts";
export { isSecretOption, type SecretFrom, secretFrom, type SecretOption } from "./model/secret-option.ts";
export type { EventTypeOptions, JsonSchema, Validation } from "./model/event-type.ts";
export type { Transform, TransformContext, TransformEvent, TransformLimits } from "./model/transform.ts";
export type { RelayEvent } from "./model/event.ts";
export type { Backoff, RetryOptions, RetrySchedule, RetrySettings, Subscription } from "./model/subscription.ts";
export { type FieldError, isLater, Problem, type ProblemCode, type ProblemExtras } from "./model/problem.ts";
export type {
  AuthPlugin,
  Job,
  Plan,
  LimitRow,
  LimitRows,
  ObserverPlugin,
  SourcePlugin,
  StoragePlugin,
  TransportPlugin,
} from "./ports/plan.ts";
export { ConflictError, ConnectError, LeaseLostError, ProxyError, StartError, StorageError } from "./model/errors.ts";
export { optionProblems, type Rule, type Rules } from "./ports/options.ts";
export * as rules from "./ports/options.ts";

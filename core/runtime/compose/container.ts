/** The names under which compose keeps the rooms. tsyringe is known in this folder alone. */
import "reflect-metadata";
import { container, instanceCachingFactory } from "tsyringe";
import type { InjectionToken } from "tsyringe";

/** A name for one `T` in the container. */
export interface Token<T> {
  readonly id: symbol;
  /** Never there: it only carries the type. */
  readonly of?: T;
}

export const token = <T>(name: string): Token<T> => ({ id: Symbol(name) });

/** A container that knows types. */
export interface Container {
  /** Puts in what exists already. */
  put<T>(at: Token<T>, value: T): void;
  /** Says how to make it; made once, when it is first asked for. */
  make<T>(at: Token<T>, build: (get: Get) => T): void;
  get: Get;
}
export type Get = <T>(at: Token<T>) => T;

export function createContainer(): Container {
  const rooms = container.createChildContainer();
  const get: Get = <T>(at: Token<T>): T => rooms.resolve<T>(at.id as InjectionToken<T>);
  return {
    get,
    put: (at, value) => void rooms.register(at.id, { useValue: value }),
    make: (at, build) => void rooms.register(at.id, { useFactory: instanceCachingFactory(() => build(get)) }),
  };
}

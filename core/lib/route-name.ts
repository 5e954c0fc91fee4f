/** Names of routes, as `POST /orders/{id}`. */

/** Returns a text that two routes share when only one of them could be served: parameters stand for any segment, whatever their names. */
export const sameRoute = (route: string): string => route.replaceAll(/\{[^}]*\}/g, "{}");

export * from "./client.js";
export * from "./errors.js";
export type { Call, Options, TokenSource } from "./exchange.js";
export * from "./pages.js";
export type { components, operations, paths } from "./schema.js";

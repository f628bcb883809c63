export { Client, type Resumed } from "./client.js";
export { SamekeyError, type ErrorKind } from "./errors.js";
export { Operation } from "./operation.js";
export type * from "./types.js";

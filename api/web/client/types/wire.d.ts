export type * from "../wire.d.ts";

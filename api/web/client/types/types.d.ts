export type * from "../types.d.ts";

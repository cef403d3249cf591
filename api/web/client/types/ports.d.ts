/** @import { Ports, HttpRequest, SocketEvents } from "./types.d.ts" */
import type { Ports } from "./types.d.ts";
/** @type {Ports} */
export declare const defaultPorts: Ports;

// Is loaded into the program before its own code (`--import`). Its pauses and timeouts of 5 and 30 s are over
// after one second.
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";

const shorter = (milliseconds) => (milliseconds === 5000 || milliseconds === 30_000 ? 1000 : milliseconds);

const { setTimeout: after } = globalThis;
globalThis.setTimeout = (callback, milliseconds, ...rest) => after(callback, shorter(milliseconds), ...rest);
const { setTimeout: sleep } = timers;
timers.setTimeout = (milliseconds, ...rest) => sleep(shorter(milliseconds), ...rest);
syncBuiltinESMExports();

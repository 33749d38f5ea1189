// node loopback-program.ts echo|relay PORT: echoes TCP at 127.0.0.2, or relays to that from
// 127.0.0.1 as nft-proxy run does for NodePorts on loopback. Prints a line when it is ready.
import { createServer } from "node:net";
import { loopbackProxy } from "../../src/daemon/loopback/loopback-proxy.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { ServiceName } from "../../src/model/ids.ts";

const [, , role, port] = process.argv;
const silent = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  isLevelEnabled: () => false,
};

if (role === "echo") {
  const server = createServer({ noDelay: true }, (socket) => socket.on("error", () => {}).pipe(socket));
  server.listen(Number(port), "127.0.0.2", () => console.log("ready"));
} else {
  const proxy = loopbackProxy({
    targets: { ip: "127.0.0.2", ip6: "::1" },
    clock: systemClock,
    logger: silent,
    onBindFailed: () => {},
  });
  await proxy.sync([{ family: "ip", port: Number(port), service: "bench/echo" as ServiceName }]);
  console.log("ready");
}

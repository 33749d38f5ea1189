// node echo-program.ts PODS: answers UDP at the addresses of the first pods. Prints a line when it is ready.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { POD_PORT, podIP } from "./cluster-objects.ts";

for (let pod = 0; pod < Number(process.argv[2]); pod++) {
  const socket = createSocket("udp4");
  socket.on("message", (message, { port, address }) => socket.send(message, port, address));
  socket.bind(POD_PORT, podIP(pod));
  await once(socket, "listening");
}
console.log("ready");

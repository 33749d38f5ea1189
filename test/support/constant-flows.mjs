// `node constant-flows.mjs SOURCE ADDRESS PORT AT_ONCE WAIT_MS`: new UDP flows without a pause, each with a
// port of its own and one packet. A flow ends with its answer, or after WAIT_MS. Prints "started" after the
// first flow. At SIGTERM, it starts no further flow, waits for the end of the last one, and prints
// `{ "sent": 900, "answered": 899 }`.
import dgram from "node:dgram";

const [source, address, port, atOnce, waitMs] = process.argv.slice(2);
const type = address.includes(":") ? "udp6" : "udp4";
const FIRST_PORT = 10_000;
const PORTS = 50_000;
let isStopped = false;
let ports = 0;
let sent = 0;
let answered = 0;
let open = 0;

function start() {
  const socket = dgram.createSocket(type);
  const own = { address: source, port: FIRST_PORT + (ports++ % PORTS), exclusive: true };
  let isOpen = true;
  const end = () => {
    if (!isOpen) return;
    isOpen = false;
    clearTimeout(timer);
    socket.close();
    open -= 1;
    if (!isStopped) start();
    else if (open === 0) process.stdout.write(`${JSON.stringify({ sent, answered })}\n`);
  };
  const timer = setTimeout(end, Number(waitMs));
  socket.on("message", () => {
    answered += 1;
    end();
  });
  socket.on("error", ({ code }) => {
    // Another client of the machine has the port. A flow that is refused ends with the timer, so that such
    // flows do not become a storm.
    if (code === "EADDRINUSE") end();
  });
  open += 1;
  socket.bind(own, () => {
    socket.connect(Number(port), address, () => {
      sent += 1;
      socket.send("?", () => {});
    });
  });
}

process.on("SIGTERM", () => {
  isStopped = true;
});
for (let number = 0; number < Number(atOnce); number++) start();
process.stdout.write("started\n");

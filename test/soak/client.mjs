// `node client.mjs TARGETS`: makes connections of some kinds all the time until SIGTERM. TARGETS is a JSON
// list of { name, kind, host, port }. Prints JSON lines: { made: { name: count } } every second, and for each
// connection that failed { failed: { name, from, until, error } }, both times in milliseconds since 1970, by
// this machine's clock.
import dgram from "node:dgram";
import net from "node:net";

/** Between two connections to one target, milliseconds; and between two questions in a connection or flow. */
const [EVERY, ASK_EVERY] = [200, 100];
const CONNECT_WITHIN = 3000;
/** Questions in a row without an answer with which a flow, and a long-lived connection, counts as failed. */
const [FLOW_SILENT_FOR, HELD_SILENT_FOR] = [15, 150];
const FLOW_LASTS = 10_000;
/** Long-lived connections to one target at a time. */
const HELD = 4;
/**
 * The first port of clients, and how many each target has. Each is used again after all others: the kernel
 * tracks a failed connection for two minutes.
 */
const [FIRST_PORT, PORTS] = [12_000, 4000];

const targets = JSON.parse(process.argv[2]);
const made = Object.fromEntries(targets.map(({ name }) => [name, 0]));
const now = () => performance.timeOrigin + performance.now();
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const fail = (name, from, error) => say({ failed: { name, from, until: now(), error } });

for (const [index, target] of targets.entries()) {
  if (target.kind === "udp") flow(target);
  else if (target.kind === "held") for (let n = 0; n < HELD; n++) hold(target);
  else connectAgainAndAgain(target, FIRST_PORT + index * PORTS);
}
setInterval(() => say({ made }), 1000);
process.on("SIGTERM", () => {
  say({ made });
  process.exit();
});

function connectAgainAndAgain({ name, host, port }, firstPort) {
  setInterval(() => {
    const localPort = firstPort + (made[name]++ % PORTS);
    const from = now();
    const socket = net.connect({ host, port, localPort });
    let isOpen = true;
    const finish = (error) => {
      if (!isOpen) return;
      isOpen = false;
      clearTimeout(timer);
      socket.destroy();
      if (error !== undefined) fail(name, from, error);
    };
    // What arrived while this process did not get a processor is read before it is judged.
    const timer = setTimeout(() => setImmediate(() => finish("timeout")), CONNECT_WITHIN);
    socket.once("data", () => finish());
    socket.once("end", () => finish("closed"));
    socket.on("error", ({ code }) => finish(code));
  }, EVERY);
}

function hold({ name, host, port }) {
  made[name]++;
  let answeredAt = now();
  let waits = false;
  let silentFor = 0;
  let isOpen = true;
  const socket = net.connect({ host, port, noDelay: true });
  const timer = setInterval(() => {
    if (!waits && socket.readyState === "open") {
      waits = true;
      socket.write("x");
    }
    silentFor++;
    if (silentFor > HELD_SILENT_FOR) end("silent");
  }, ASK_EVERY);
  const end = (error) => {
    if (!isOpen) return;
    isOpen = false;
    clearInterval(timer);
    socket.destroy();
    fail(name, answeredAt, error);
    setTimeout(() => hold({ name, host, port }), 500);
  };
  socket.on("data", () => {
    answeredAt = now();
    waits = false;
    silentFor = 0;
  });
  socket.on("error", ({ code }) => end(code));
  socket.on("close", () => end("closed"));
}

function flow({ name, host, port }) {
  made[name]++;
  const socket = dgram.createSocket(host.includes(":") ? "udp6" : "udp4");
  let answeredAt = now();
  let asked = 0;
  const ask = () => {
    socket.send("?", () => {});
    asked++;
  };
  const judge = () => {
    if (asked > FLOW_SILENT_FOR) fail(name, answeredAt, "no answer");
  };
  socket.on("message", () => {
    judge();
    answeredAt = now();
    asked = 0;
  });
  // ICMP errors: nobody answers, which is told above.
  socket.on("error", () => {});
  socket.connect(port, host, () => {
    const timer = setInterval(ask, ASK_EVERY);
    setTimeout(() => {
      judge();
      clearInterval(timer);
      socket.close();
      flow({ name, host, port });
    }, FLOW_LASTS);
  });
}

// Makes real connections and tells what came back.
import dgram from "node:dgram";
import net from "node:net";

const atOnce = 12;
const refusals = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM"]);
const refused = "refused";

/**
 * Makes each probe's connections one after the other, several probes at a time.
 * A connection is { to, port, proto, from?, count?, waitMs }. Without a count it is made 90 times and at least 20 times
 * for each answer seen, so that missing one of N random endpoints is less likely than 1 in 10^7.
 * A probe ends at its second connection without an answer; one whose first connection was refused, too.
 * @returns for each, in order, how often each answer came: { "<address> <port> <peer>": 90 } or { "refused": 2 }
 */
export async function observeAll(connections) {
  const tallies = connections.map(() => ({}));
  const todo = connections.entries();
  const worker = async () => {
    for (const [index, connection] of todo) await observe(connection, tallies[index]);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return tallies;
}

async function observe(connection, tally) {
  let answered = true;
  for (let made = 0; made < wanted(connection, tally, answered); made++) {
    const answer = await (connection.proto === "udp" ? askUdp(connection) : askTcp(connection));
    tally[answer] = (tally[answer] ?? 0) + 1;
    if (made === 0) answered = answer.includes(" ");
    if (tally.timeout === 2) return;
  }
}

function wanted({ count }, tally, answered) {
  if (!answered) return 2;
  return count ?? Math.max(90, 20 * Object.keys(tally).length);
}

function askTcp({ to, port, from, waitMs }) {
  return new Promise((resolve) => {
    const socket = net.connect({ host: to, port, ...(from === undefined ? {} : { localAddress: from }) });
    const finish = (answer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(finish, waitMs, "timeout");
    socket.once("data", (data) => finish(data.toString().trim()));
    socket.once("error", (error) => finish(failure(error)));
    socket.once("end", () => finish("closed"));
  });
}

// Connected, so that ICMP errors reach the socket.
function askUdp({ to, port, from, waitMs }) {
  return new Promise((resolve) => {
    const socket = dgram.createSocket(to.includes(":") ? "udp6" : "udp4");
    let open = true;
    // An error may come twice: from the send and from the socket.
    const finish = (answer) => {
      if (!open) return;
      open = false;
      clearTimeout(timer);
      socket.close();
      resolve(answer);
    };
    const timer = setTimeout(finish, waitMs, "timeout");
    socket.on("error", (error) => finish(failure(error)));
    socket.once("message", (data) => finish(data.toString()));
    socket.once("connect", () => socket.send("hello", (error) => error && finish(failure(error))));
    const connect = () => socket.connect(port, to);
    if (from === undefined) connect();
    else socket.bind({ address: from, port: 0, exclusive: true }, connect);
  });
}

function failure({ code }) {
  return refusals.has(code) ? refused : `error:${code}`;
}

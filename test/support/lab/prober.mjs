// Makes real connections and reports the answers.
import dgram from "node:dgram";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ping } from "./ping.mjs";

const atOnce = 12;
// A first connection that is silent for so long will probably time out. Milliseconds.
const SILENCE = 500;
const ASK = { tcp: askTcp, udp: askUdp, ping };
const refusals = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM"]);
const refused = "refused";

/**
 * Makes the connections of each probe one after the other, and several probes at a time. A probe is
 * `{ to, port, proto, from?, count?, waitMs }`. Without a count it makes 30 connections, and at least 25 for
 * each answer seen, so that the chance to miss one of N random endpoints is less than 1 in 10^8. A probe ends
 * after its second timeout, or after two connections if the first one was refused or timed out. If the first
 * one is silent, the second one does not wait for its end.
 * @returns the number of times of each answer, for each probe in order: `{ "<address> <port> <peer>": 30 }`
 * or `{ "refused": 2 }`
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
  const ask = () => ASK[connection.proto](connection);
  const first = ask();
  const isSilent = await Promise.race([first.then(() => false), sleep(SILENCE, true)]);
  const begun = isSilent ? [first, ask()] : [first];
  let answered = true;
  for (let made = 0; made < wanted(connection, tally, answered); made++) {
    const answer = await (begun[made] ?? ask());
    tally[answer] = (tally[answer] ?? 0) + 1;
    if (made === 0) answered = answer.includes(" ");
    if (tally.timeout === 2) return;
  }
}

function wanted({ count }, tally, answered) {
  if (!answered) return 2;
  return count ?? Math.max(30, 25 * Object.keys(tally).length);
}

// The kernel chooses ports at random: of 40 flows from one address, two have the same port in one run of 36,
// and conntrack then takes the second for the first. So each connection of this process has the next port of
// the kernel's default range.
const FIRST_PORT = 32_768;
const PORTS = 28_232;
let connections = 0;
const nextPort = () => FIRST_PORT + (connections++ % PORTS);

function askTcp(connection) {
  const { to, port, from, waitMs } = connection;
  return new Promise((resolve) => {
    const own = { localPort: nextPort(), ...(from === undefined ? {} : { localAddress: from }) };
    const socket = net.connect({ host: to, port, ...own });
    const finish = (answer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(finish, waitMs, "timeout");
    socket.once("data", (data) => finish(data.toString().trim()));
    socket.once("error", (error) => finish(isTaken(error) ? askTcp(connection) : failure(error)));
    socket.once("end", () => finish("closed"));
  });
}

// The socket is connected, so that ICMP errors reach it.
function askUdp(connection) {
  const { to, port, from, waitMs } = connection;
  return new Promise((resolve) => {
    const socket = dgram.createSocket(to.includes(":") ? "udp6" : "udp4");
    let open = true;
    // An error may be reported twice, by the send and by the socket.
    const finish = (answer) => {
      if (!open) return;
      open = false;
      clearTimeout(timer);
      socket.close();
      resolve(answer);
    };
    const timer = setTimeout(finish, waitMs, "timeout");
    socket.on("error", (error) => finish(isTaken(error) ? askUdp(connection) : failure(error)));
    socket.once("message", (data) => finish(data.toString()));
    socket.once("connect", () => socket.send("hello", (error) => error && finish(failure(error))));
    const own = { port: nextPort(), ...(from === undefined ? {} : { address: from }) };
    socket.bind({ ...own, exclusive: true }, () => socket.connect(port, to));
  });
}

function isTaken({ code }) {
  return code === "EADDRINUSE";
}

function failure({ code }) {
  return refusals.has(code) ? refused : `error:${code}`;
}

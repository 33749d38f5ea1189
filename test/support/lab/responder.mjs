// Endpoints that answer "<own address> <own port> <peer address>" and end the connection.
import dgram from "node:dgram";
import { once } from "node:events";
import net from "node:net";

/**
 * Answers TCP on every address and UDP on the addresses given, on every one of the ports; resolves when all listen.
 * @param {readonly string[]} addresses
 * @param {readonly number[]} ports
 */
export async function listen(addresses, ports) {
  if (addresses.length === 0) return;
  const udp = addresses.flatMap((address) => ports.map((port) => listenUdp(address, port)));
  await Promise.all([...ports.map(listenTcp), ...udp]);
}

async function listenTcp(port) {
  const server = net.createServer((socket) => {
    // A client may reset what it no longer wants.
    socket.on("error", () => {});
    socket.end(`${bare(socket.localAddress)} ${port} ${bare(socket.remoteAddress)}\n`);
  });
  server.listen({ host: "::", port, backlog: 1024, exclusive: true });
  await once(server, "listening");
}

// A socket bound to no address would answer from whichever one routing picks.
async function listenUdp(address, port) {
  const socket = dgram.createSocket(address.includes(":") ? "udp6" : "udp4");
  socket.on("message", (_, peer) =>
    socket.send(`${address} ${port} ${peer.address}`, peer.port, peer.address),
  );
  socket.bind({ address, port, exclusive: true });
  await once(socket, "listening");
}

// An IPv4 peer of a dual-stack socket.
function bare(address = "") {
  return address.replace(/^::ffff:/, "");
}

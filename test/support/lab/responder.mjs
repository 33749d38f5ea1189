// Endpoints that answer "<own address> <own port> <peer address>" and end the connection.
import dgram from "node:dgram";
import { once } from "node:events";
import net from "node:net";

/**
 * Answers on each of the ports: TCP at every address, UDP at the given addresses. Resolves when all listen.
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
    // A client may reset a connection that it no longer needs.
    socket.on("error", () => {});
    socket.end(`${bare(socket.localAddress)} ${port} ${bare(socket.remoteAddress)}\n`);
  });
  server.listen({ host: "::", port, backlog: 1024, exclusive: true });
  await once(server, "listening");
}

// A socket without an address would answer from the address that routing selects.
async function listenUdp(address, port) {
  const socket = dgram.createSocket(address.includes(":") ? "udp6" : "udp4");
  socket.on("message", (_, peer) =>
    socket.send(`${address} ${port} ${peer.address}`, peer.port, peer.address),
  );
  socket.bind({ address, port, exclusive: true });
  await once(socket, "listening");
}

// A dual-stack socket shows IPv4 peers with this prefix.
function bare(address = "") {
  return address.replace(/^::ffff:/, "");
}

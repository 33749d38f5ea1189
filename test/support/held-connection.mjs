// `serve PORT`: a TCP server that sends back what it gets. `hold ADDRESS PORT`: a connection that stays open and is
// used ten times a second; prints "broken" and why if it ends, and "alive N" for every tenth answer.
import net from "node:net";

const say = (line) => process.stdout.write(`${line}\n`);
const [mode, ...rest] = process.argv.slice(2);
if (mode === "serve") {
  net.createServer((socket) => socket.on("error", () => {}).pipe(socket)).listen(Number(rest[0]), "::");
  say("listening");
} else {
  hold(rest[0], Number(rest[1]));
}

function hold(host, port) {
  const socket = net.connect({ host, port, noDelay: true });
  let answers = 0;
  let waiting = false;
  socket.on("data", () => {
    waiting = false;
    answers += 1;
    if (answers % 10 === 1) say(`alive ${answers}`);
  });
  socket.on("error", (error) => say(`broken ${error.code}`));
  socket.on("close", () => say("broken"));
  setInterval(() => {
    if (waiting) return;
    waiting = true;
    socket.write("x");
  }, 100);
}

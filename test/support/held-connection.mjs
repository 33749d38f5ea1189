// `serve PORT ...`: a TCP echo server. `hold ADDRESS PORT ...`: connections that stay open and are used ten
// times a second. SIGUSR2 pauses all of them, or continues. Prints, after the number of the connection,
// "answered" for every answer, "resting" once it is paused and answered, and "broken" with the reason if it
// ends.
import net from "node:net";

const say = (line) => process.stdout.write(`${line}\n`);
const [mode, ...rest] = process.argv.slice(2);
if (mode === "serve") {
  const echo = (socket) => socket.on("error", () => {}).pipe(socket);
  for (const port of rest) net.createServer(echo).listen(Number(port), "::");
  say("listening");
} else {
  for (let n = 0; 2 * n < rest.length; n++) hold(n, rest[2 * n], Number(rest[2 * n + 1]));
}

function hold(n, host, port) {
  let waiting = false;
  let rests = false;
  const answered = () => {
    waiting = false;
    say(`${n} answered`);
    if (rests) say(`${n} resting`);
    return true;
  };
  // libuv reports a reset that follows unread data as an end, unless the data fills the buffer.
  const onread = { buffer: Buffer.alloc(1), callback: answered };
  const socket = net.connect({ host, port, noDelay: true, onread });
  process.on("SIGUSR2", () => {
    rests = !rests;
    if (rests && !waiting) say(`${n} resting`);
  });
  socket.on("error", (error) => say(`${n} broken ${error.code}`));
  socket.on("close", () => say(`${n} broken`));
  setInterval(() => {
    if (waiting || rests) return;
    waiting = true;
    socket.write("x");
  }, 100);
}

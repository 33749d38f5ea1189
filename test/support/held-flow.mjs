// `node held-flow.mjs ADDRESS PORT`: one UDP socket that sends a request ten times a second. Prints who
// answers (the answer's first word) whenever this changes, and "nobody" after a second without an answer.
import dgram from "node:dgram";

const [host, port] = process.argv.slice(2);
const socket = dgram.createSocket(host.includes(":") ? "udp6" : "udp4");
let told = "";
let answeredAt = Date.now();

function tell(who) {
  if (who !== told) process.stdout.write(`${who}\n`);
  told = who;
}

socket.on("message", (data) => {
  answeredAt = Date.now();
  tell(data.toString().split(" ")[0]);
});
// ICMP errors need no handling: the timer below reports that nobody answers.
socket.on("error", () => {});
socket.connect(Number(port), host, () => {
  setInterval(() => {
    socket.send("?", () => {});
    if (Date.now() - answeredAt > 1000) tell("nobody");
  }, 100);
});

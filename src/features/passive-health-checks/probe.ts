import { connect } from "node:net";

/**
 * The result of a TCP connect; `failed`: refused, or no answer; `unknown`: this node lacked the resources to
 * connect.
 */
export type Answer = "answered" | "failed" | "unknown";

/** Probes an endpoint. Never rejects. */
export type Probe = (address: string, port: number) => Promise<Answer>;

/** Time for an answer, milliseconds: the kernel sends a SYN again after one second. */
const TIMEOUT = 1500;

/**
 * Errors of this node: no file descriptor, memory or local port is left. They say nothing about the endpoint.
 */
const OWN_ERRORS = ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL", "EAGAIN"];

/** Connects by TCP, sends nothing, and closes immediately. */
export const probeByConnecting: Probe = (address, port) =>
  new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: TIMEOUT });
    const end = (answer: Answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => end("answered"));
    socket.once("timeout", () => end("failed"));
    socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => {
      end(OWN_ERRORS.includes(code) ? "unknown" : "failed");
    });
  });

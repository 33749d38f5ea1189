import type { ReservedPortFiles } from "../../src/kernel/reserved-ports.ts";

/** Reserved ports in memory. There are none at first. */
export class FakeReservedPorts implements ReservedPortFiles {
  reserved: string;
  ours = "";
  /** The code of the system error of every access, or "" for none. */
  refuses = "";

  constructor(reserved = "") {
    this.reserved = reserved;
  }

  async read(): Promise<string> {
    if (this.refuses !== "") throw Object.assign(new Error(this.refuses), { code: this.refuses });
    return `${this.reserved}\n`;
  }

  async write(text: string): Promise<void> {
    this.reserved = text;
  }

  async readOurs(): Promise<string> {
    return this.ours;
  }

  async writeOurs(text: string): Promise<void> {
    this.ours = text;
  }
}

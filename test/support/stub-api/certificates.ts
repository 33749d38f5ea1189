import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate and its key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority and the certificates that it has signed. */
export interface Authority {
  /** The authority's own certificate, PEM. */
  readonly ca: string;
  /** A certificate for a server on 127.0.0.1. */
  readonly server: KeyPair;
  /** A certificate for a client called `system:node-proxier`. */
  readonly client: KeyPair;
}

/** Returns true if `openssl` is installed, which {@link makeAuthority} needs. */
export function hasOpenssl(): boolean {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Creates a new authority, valid for a day. */
export function makeAuthority(): Authority {
  const directory = mkdtempSync(join(tmpdir(), "authority-"));
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: directory, stdio: "pipe" });
  const read = (name: string) => readFileSync(join(directory, name), "utf8");
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const sign = (name: string, subject: string, extension: string): KeyPair => {
    writeFileSync(join(directory, `${name}.ext`), extension);
    openssl("req", "-new", ...newKey, "-subj", subject, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    const signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"];
    openssl(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      ...signer,
      "-extfile",
      `${name}.ext`,
      "-out",
      `${name}.crt`,
    );
    return { cert: read(`${name}.crt`), key: read(`${name}.key`) };
  };
  try {
    openssl(
      "req",
      "-x509",
      ...newKey,
      "-days",
      "1",
      "-subj",
      "/CN=test-ca",
      "-keyout",
      "ca.key",
      "-out",
      "ca.crt",
    );
    return {
      ca: read("ca.crt"),
      server: sign("server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1"),
      client: sign("client", "/CN=system:node-proxier", "extendedKeyUsage=clientAuth"),
    };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

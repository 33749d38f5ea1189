/** The start value of all three words. Source: include/linux/jhash.h, JHASH_INITVAL. */
const INITIAL = 0xdeadbeef;

/**
 * Computes Jenkins' hash as the kernel does on little-endian machines.
 * Source: https://elixir.bootlin.com/linux/v6.18/source/include/linux/jhash.h
 * @param key bytes to hash
 * @param seed 32 bits
 * @returns 32 bits, unsigned
 */
export function jhash(key: Uint8Array, seed: number): number {
  const initial = (INITIAL + key.length + seed) | 0;
  let words: Words = [initial, initial, initial];
  let at = 0;
  for (; key.length - at > 12; at += 12) words = mix(added(words, key, at));
  return (key.length > at ? finish(added(words, key, at)) : words[2]) >>> 0;
}

/**
 * Maps a hash to 0..modulus-1 as nft's `mod` does, which is not a remainder.
 * Source: include/linux/kernel.h, reciprocal_scale; net/netfilter/nft_hash.c
 * @param hash 32 bits, unsigned
 */
export function scaleHash(hash: number, modulus: number): number {
  // The product is below 2^53 if the modulus has at most 21 bits.
  return Math.floor((hash * modulus) / 2 ** 32);
}

/** MurmurHash3's finalizer, which spreads small differences over all 32 bits. */
export function scatter(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The hash's state while it is computed. */
type Words = readonly [a: number, b: number, c: number];

/** Adds the next 12 bytes; bytes beyond the end count as zero. */
function added([a, b, c]: Words, key: Uint8Array, at: number): Words {
  return [a + word(key, at), b + word(key, at + 4), c + word(key, at + 8)];
}

function word(key: Uint8Array, at: number): number {
  return (key[at] ?? 0) | ((key[at + 1] ?? 0) << 8) | ((key[at + 2] ?? 0) << 16) | ((key[at + 3] ?? 0) << 24);
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}

/** The macro `__jhash_mix`: all steps are the same, and the words change their roles in a circle. */
function mix([a, b, c]: Words): Words {
  for (const bits of [4, 6, 8, 16, 19, 4]) [a, b, c] = [b, c + b, (a - c) ^ rotate(c, bits)];
  return [a, b, c];
}

/** The macro `__jhash_final`, in the same way. Returns the last word. */
function finish([a, b, c]: Words): number {
  for (const bits of [14, 11, 25, 16, 4, 14, 24]) [a, b, c] = [b, (c ^ b) - rotate(b, bits), a];
  return b;
}

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
  const words = { a: (INITIAL + key.length + seed) | 0, b: 0, c: 0 };
  words.b = words.a;
  words.c = words.a;
  let at = 0;
  for (; key.length - at > 12; at += 12) {
    add(words, key, at);
    mix(words);
  }
  if (key.length > at) {
    add(words, key, at);
    finish(words);
  }
  return words.c >>> 0;
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

interface Words {
  a: number;
  b: number;
  c: number;
}

/** Adds the next 12 bytes; bytes beyond the end count as zero. */
function add(words: Words, key: Uint8Array, at: number): void {
  words.a = (words.a + word(key, at)) | 0;
  words.b = (words.b + word(key, at + 4)) | 0;
  words.c = (words.c + word(key, at + 8)) | 0;
}

function word(key: Uint8Array, at: number): number {
  return (key[at] ?? 0) | ((key[at + 1] ?? 0) << 8) | ((key[at + 2] ?? 0) << 16) | ((key[at + 3] ?? 0) << 24);
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}

function mix(words: Words): void {
  let { a, b, c } = words;
  a = ((a - c) ^ rotate(c, 4)) | 0;
  c = (c + b) | 0;
  b = ((b - a) ^ rotate(a, 6)) | 0;
  a = (a + c) | 0;
  c = ((c - b) ^ rotate(b, 8)) | 0;
  b = (b + a) | 0;
  a = ((a - c) ^ rotate(c, 16)) | 0;
  c = (c + b) | 0;
  b = ((b - a) ^ rotate(a, 19)) | 0;
  a = (a + c) | 0;
  c = ((c - b) ^ rotate(b, 4)) | 0;
  b = (b + a) | 0;
  Object.assign(words, { a, b, c });
}

function finish(words: Words): void {
  let { a, b, c } = words;
  c = ((c ^ b) - rotate(b, 14)) | 0;
  a = ((a ^ c) - rotate(c, 11)) | 0;
  b = ((b ^ a) - rotate(a, 25)) | 0;
  c = ((c ^ b) - rotate(b, 16)) | 0;
  a = ((a ^ c) - rotate(c, 4)) | 0;
  b = ((b ^ a) - rotate(a, 14)) | 0;
  c = ((c ^ b) - rotate(b, 24)) | 0;
  Object.assign(words, { a, b, c });
}

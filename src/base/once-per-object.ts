/**
 * Returns a function that makes the value of an object at the first call for it, and keeps the value as long
 * as the object. The object must not change meanwhile.
 */
export function oncePerObject<K extends object, V>(make: (object: K) => V): (object: K) => V {
  const values = new WeakMap<K, V>();
  return (object) => {
    const known = values.get(object);
    if (known !== undefined || values.has(object)) return known as V;
    const value = make(object);
    values.set(object, value);
    return value;
  };
}

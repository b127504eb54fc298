// JSON merge patches (RFC 7396).

type Json = unknown;
type Dict = Record<string, Json>;

function isDict(value: Json): value is Dict {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The target after the patch. Neither is changed. Parts that the patch does not name are the same objects as before: what is drawn from
 * them compares by identity and is not drawn again.
 */
export function mergePatch(target: Json, patch: Json): Json {
  if (!isDict(patch)) return patch;
  const merged: Dict = Object.assign(Object.create(null) as Dict, isDict(target) ? target : {});
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key], value);
  }
  return merged;
}

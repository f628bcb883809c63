// What Rust tells, as objects: their members are named here a single time.

export const error = (kind, reason, message, reference, until, attempts, unresolved, nothingWasSent) => ({
  kind, reason, message, reference, until, attempts, unresolved, nothingWasSent,
});

export const outcome = (state, status, lines, body, provenance, attempts, answeredAt, reference, key, recorded, note) => ({
  state, status, lines, body: body?.slice(), provenance, attempts, answeredAt, reference, key, recorded, note,
});

export const update = (state, attempt, wait, reason, until) => ({ state, attempt, wait, reason, until });

export const summary = (reference, key, intent, url, method, state, reason, attempts, begunAt, maybeApplied, unfinished, grade, until, last, damage) => ({
  reference, key, intent, url, method, state, reason, attempts, begunAt, maybeApplied, unfinished, grade, until, last, damage,
});

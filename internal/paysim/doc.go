// Package paysim is a payment provider that keeps state and misbehaves on request.
//
// It speaks the provider's side of the contract: POST /charges with an
// Idempotency-Key, GET /charges?idempotency_key= and GET /charges?cursor=&limit=.
// Tests mount it in process, the demo runs it as a server (cmd/paysim).
//
// What it promises, so that a proof can be built on it:
//
//   - An effect is one final word about a charge: money taken (succeeded) or
//     refused (declined). A key has at most one effect while it is remembered, also
//     under concurrent requests, and a client that goes away does not undo it.
//   - The first answer of a key is repeated, with Idempotent-Replayed: true, for the
//     same bytes. Other bytes get 409 key_reused, a request that arrives while the
//     first is still executing gets 409 in_progress.
//   - After the key window, on a clock that tests move, the key is forgotten and a
//     repeat is a second effect: a double charge shows up instead of being hidden.
//   - Effects are never forgotten. Look-up by key gives the first one, the list gives
//     all of them in the order of their sequence numbers, which never changes.
//   - An effect is in the journal before any answer tells of it, and a request is in
//     the journal before its answer leaves. A server killed at any point continues
//     on its journal with the same keys, effects, clock and pending charges; only
//     requests that had no answer yet may be missing from it.
//   - Faults are chosen by rules and by shares. A share is decided by the seed, the
//     key and the number of the request for that key, never by the order of arrival,
//     so a run with the same seed and requests meets the same faults.
//
// Requests are handled in this order: token, fault before the effect, checks of the
// request, the key, added latency, effect, fault after the effect. Latency counts as
// execution: the key is in progress, and the effect comes even if the client left.
package paysim

// Package observe is how the service is seen: structured logs with trace ids and without payloads,
// every metric of the contract, and the liveness of the loops. Use cases return counts; the edge
// exports them here.
package observe

// Package domain says what billing means: an order is charged exactly once.
//
// The life of a charge:
//
//	requested ──▶ succeeded                 the provider said yes
//	    │   ├───▶ declined                  the provider said no; the order may be charged again
//	    │   ├───▶ parked                    automatic work has stopped, a person decides
//	    │   └───▶ cancelled                 an operator, only if never sent
//	parked ─────▶ succeeded | declined | cancelled | requested (an operator's retry)
//
// Succeeded, declined and cancelled are terminal: nothing leaves them.
//
// The words used here are used everywhere, in tables, metrics, topics and logs:
//
//	event        a fact someone published; its EventID is its identity
//	charge       a sum to collect exactly once; its id is the EventID
//	attempt      one call to the provider that may take money
//	outcome      what is known of an attempt
//	settle       write an outcome and its announcement
//	announcement a charge's move told to the world on Kafka, numbered by version
//	inbox        processed_event: the ids of events already handled
//	outbox       rows that order work outside: a provider call or a Kafka message
//	lease        the right to work on a row until a time
//	fencing      a late owner's write is refused, told by the row's attempt number
//	key window   how long the provider remembers an idempotency key
//	position     the next offset of a partition, kept in the database
//
// The package uses the standard library and the UUID package only.
package domain

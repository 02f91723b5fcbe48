package usecase

import "encoding/hex"

// TraceOf returns the message's W3C traceparent, or one that is made from the EventID, so that every
// charge has a trace which the provider and the consumers of results can follow.
func TraceOf(d Delivery) string {
	if d.Traceparent != "" {
		return d.Traceparent
	}
	id := d.Event.EventID
	return "00-" + hex.EncodeToString(id[:]) + "-" + hex.EncodeToString(id[8:]) + "-00"
}

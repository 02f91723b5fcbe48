package usecase

// The headers of a message in the retry topic. The first four name the record as it was first read, so
// that its dead letter bears the coordinates which its producer knows.
const (
	HeaderRetryTopic     = "retry-topic"
	HeaderRetryPartition = "retry-partition"
	HeaderRetryOffset    = "retry-offset"
	HeaderRetryTimestamp = "retry-timestamp" // RFC 3339 UTC with milliseconds
	HeaderRetryCount     = "retry-count"     // how often the message went through the retry topic
)

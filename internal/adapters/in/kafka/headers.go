package kafka

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"billing/internal/core/usecase"
)

const (
	headerTraceparent = "traceparent"
	traceparentSize   = 55 // version, trace id, parent id and flags
	retryTimeLayout   = "2006-01-02T15:04:05.000Z"
	retrySuffix       = ".retry"
	maxRetries        = 1 << 20
)

// header returns the last value under a key, as Kafka's own clients do, and whether there is one.
func header(headers []usecase.Header, key string) (string, bool) {
	for _, h := range slices.Backward(headers) {
		if h.Key == key {
			return string(h.Value), true
		}
	}
	return "", false
}

// traceparent returns the trace context of a message, empty when there is none or it is not valid W3C. One
// of a later version is brought down to version 00, whose fields every version begins with.
func traceparent(headers []usecase.Header) string {
	value, _ := header(headers, headerTraceparent)
	if len(value) < traceparentSize || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return ""
	}
	version, traceID, parentID, flags := value[:2], value[3:35], value[36:52], value[53:55]
	if !isLowerHex(version) || !isLowerHex(traceID) || !isLowerHex(parentID) || !isLowerHex(flags) || version == "ff" {
		return ""
	}
	if strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return ""
	}
	rest := value[traceparentSize:]
	if rest != "" && (version == "00" || rest[0] != '-') {
		return ""
	}
	return "00" + value[2:traceparentSize]
}

func isLowerHex(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// retried returns where a message from the retry topic was first read and how often it has been there.
// The headers count together or not at all, and only in a retry topic of the topic that they name: a copy of
// such a message in the topic itself, such as a dead letter that was sent again with its headers, is a message of
// its own, with coordinates of its own.
func retried(topic string, headers []usecase.Header) (usecase.Origin, int, bool) {
	var none usecase.Origin
	name, ok := header(headers, usecase.HeaderRetryTopic)
	if !ok || name == "" || !strings.HasPrefix(topic, name+".") || !strings.HasSuffix(topic, retrySuffix) {
		return none, 0, false
	}
	partition, ok := headerNumber(headers, usecase.HeaderRetryPartition, 1<<31-1)
	if !ok {
		return none, 0, false
	}
	offset, ok := headerNumber(headers, usecase.HeaderRetryOffset, 1<<63-1)
	if !ok {
		return none, 0, false
	}
	count, ok := headerNumber(headers, usecase.HeaderRetryCount, maxRetries)
	if !ok {
		return none, 0, false
	}
	stamp, _ := header(headers, usecase.HeaderRetryTimestamp)
	at, err := time.Parse(retryTimeLayout, stamp)
	if err != nil || at.Format(retryTimeLayout) != stamp {
		return none, 0, false
	}
	return usecase.Origin{Topic: name, Partition: int32(partition), Offset: offset, Time: at}, int(count), true //nolint:gosec // bounded above
}

// headerNumber reads a header of decimal digits, without sign, up to limit.
func headerNumber(headers []usecase.Header, key string, limit int64) (int64, bool) {
	value, _ := header(headers, key)
	if !isDigits([]byte(value)) {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil && n <= limit
}

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	kafkain "billing/internal/adapters/in/kafka"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

// resultReader reads the topic of results for the audit, as a consumer would.
type resultReader struct {
	topic kafkain.Topic
}

func newResultReader(cfg Config, transport *kafka.Transport) resultReader {
	return resultReader{kafkain.Topic{
		Brokers: cfg.KafkaBrokers, Name: cfg.KafkaResultsTopic, Transport: transport, Clock: worker.Clock{}, Log: slog.New(slog.DiscardHandler),
	}}
}

// ReadResults implements usecase.ResultReader.
func (r resultReader) ReadResults(ctx context.Context, each func(results []usecase.Result) error) (time.Time, error) {
	return r.topic.Read(ctx, func(partition int32, messages []usecase.Message) error {
		results := make([]usecase.Result, len(messages))
		for i, m := range messages {
			results[i] = readResult(partition, m)
		}
		return each(results)
	})
}

// readResult reads what a consumer of results relies on (contract §4).
func readResult(partition int32, m usecase.Message) usecase.Result {
	var v struct {
		EventID    string `json:"event_id"`
		Type       string `json:"event_type"`
		Source     string `json:"source_event_id"`
		OrderID    string `json:"order_id"`
		CustomerID string `json:"customer_id"`
		Amount     int64  `json:"amount"`
		Currency   string `json:"currency"`
		Version    int32  `json:"version"`
	}
	result := usecase.Result{Partition: partition, Offset: m.Offset}
	switch err := json.Unmarshal(m.Value, &v); {
	case err != nil:
		result.Fault = "not the JSON of a result"
	case string(m.Key) != v.OrderID:
		result.Fault = "its key is not its order"
	case strings.ContainsRune(v.EventID+v.Type+v.Source+v.OrderID+v.CustomerID+v.Currency, 0):
		result.Fault = "a text of it holds NUL"
	default:
		result.EventID, result.Type, result.Source, result.Version = v.EventID, v.Type, v.Source, v.Version
		result.OrderID, result.CustomerID, result.Amount, result.Currency = v.OrderID, v.CustomerID, v.Amount, v.Currency
	}
	return result
}

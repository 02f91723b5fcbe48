package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"golang.org/x/sync/errgroup"

	httpin "billing/internal/adapters/in/http"
	kafkain "billing/internal/adapters/in/kafka"
	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/adapters/out/payment"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
	"billing/internal/worker"
)

// codec makes all bytes that leave the service.
type codec struct{ kafkaout.Messages }

// Request implements usecase.Codec.
func (codec) Request(order domain.Order) ([]byte, error) { return payment.Request(order) }

func (s *service) codec() usecase.Codec {
	return codec{kafkaout.Messages{ResultsTopic: s.cfg.KafkaResultsTopic, DeadLetterTopic: s.cfg.KafkaDeadLetterTopic}}
}

// consumer builds the way in from Kafka.
func (s *service) consumer() (part, error) {
	dialer, transport, err := kafkaConnections(s.cfg)
	if err != nil {
		return part{}, err
	}
	retryTopics := make([]string, 0, len(s.cfg.KafkaTopics))
	for _, topic := range s.cfg.KafkaTopics {
		retryTopics = append(retryTopics, usecase.RetryTopic(topic, s.cfg.KafkaGroup))
	}
	decoder := kafkain.Decoder{
		DefaultCurrency: s.cfg.DefaultCurrency, MaxAmountMinor: s.cfg.MaxAmountMinor, IgnoreEventTypes: s.cfg.KafkaIgnoreEventTypes,
	}
	group := &kafkain.Group{
		Brokers: s.cfg.KafkaBrokers, ID: s.cfg.KafkaGroup, Topics: s.cfg.KafkaTopics, RetryTopics: retryTopics,
		Session: s.cfg.KafkaSessionTimeout, Dialer: dialer, Transport: transport, Decode: decoder.Decode,
		Observer: groupObserver{s.metrics}, Clock: s.clock, Log: s.log,
	}
	group.Handle = s.handler(min(dbTimeout, group.DrainTimeout()))
	run := func(ctx context.Context) error {
		defer transport.CloseIdleConnections()
		return group.Run(ctx)
	}
	return part{"consumer", run}, nil
}

// handler runs the use case for each assigned partition.
func (s *service) handler(writeTimeout time.Duration) kafkain.Handler {
	plan := usecase.RetryPlan{Delays: s.cfg.KafkaRetryDelays}
	build := buildInfo()
	var noticed sync.Map // by topic: once a start is enough
	return func(ctx context.Context, src usecase.Source, log usecase.PartitionLog, committed int64) error {
		beat := s.liveness.Register(fmt.Sprintf("partition %s/%d", src.Topic, src.Partition))
		defer beat.Stop()
		reason := ""
		p := usecase.Partition{
			Accept: usecase.Accept{
				Inbox: tapInbox(s.inbox), Codec: s.codec(), Limits: usecase.Limits{Retention: s.cfg.Retention, Skew: s.cfg.ClockSkew},
			},
			Clock: s.clock, Random: rand.Float64, Backoff: domain.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
			Tries: 3, WriteTimeout: writeTimeout, OperatorPoll: 2 * time.Second,
			Wake: func() { s.charges.Set(); s.messages.Set() }, Turn: beat.Beat, Retry: plan.Message,
			BrakeShare: float64(s.cfg.DeadLetterBrake), Build: build.Version + " " + build.Commit,
			Notice: func(ctx context.Context, src usecase.Source, text string) {
				if _, again := noticed.Swap(src.Topic, true); !again {
					s.log.WarnContext(ctx, "the topic outlives the inbox: raise BILLING_RETENTION", "topic", src.Topic, "reason", text)
				}
			},
			Skipped: func(ctx context.Context, src usecase.Source, span usecase.Span) {
				s.log.WarnContext(ctx, "records were passed over, as an operator decided", "topic", src.Topic, "partition", src.Partition,
					"from", span.From, "to", span.To)
			},
			Report: func(src usecase.Source, counts usecase.Counts) {
				reason = ""
				countMessages(s.metrics, s.clock.Now, src, counts)
			},
			Trouble: func(ctx context.Context, src usecase.Source, err error) {
				if text := err.Error(); text != reason { // one line each time the reason changes
					reason = text
					s.log.WarnContext(ctx, "the partition does not advance", "topic", src.Topic, "partition", src.Partition, "error", err)
				}
			},
		}
		return p.Run(ctx, src, tapLog(log), committed)
	}
}

// relays is how many loops of a process publish: while one waits for the disk or the broker, the other has work.
const relays = 2

// relay builds the way out to Kafka.
func (s *service) relay() (part, func(), error) {
	_, transport, err := kafkaConnections(s.cfg)
	if err != nil {
		return part{}, nil, err
	}
	writer := kafkaout.NewWriter(s.cfg.KafkaBrokers, transport)
	relay := usecase.Relay{
		Queue: tapMessages(s.queue), Publisher: tapPublisher(writer), Backoff: domain.Backoff{Min: 200 * time.Millisecond, Max: 30 * time.Second},
		Random: rand.Float64, Limit: 1000, Lease: s.cfg.RelayLease, Timeout: min(s.cfg.RelayLease, 20*time.Second) - 2*time.Second,
	}
	loop := worker.Loop{
		Name: "relay", Idle: pollEvery, Max: 5 * time.Second, Wake: s.messages, Clock: s.clock, Log: s.log,
		Step: func(ctx context.Context) (bool, error) {
			before := s.clock.Now()
			report, busy, err := relay.Step(ctx)
			if busy {
				s.countPublished(report, s.clock.Now().Sub(before))
			}
			if err == nil {
				err = report.Err
			}
			return busy && report.Published > 0, err
		},
	}
	var beats [relays]*observe.Heartbeat
	for i := range beats {
		beats[i] = s.liveness.Register("relay")
	}
	run := func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, beat := range beats {
			group.Go(func() error {
				defer beat.Stop()
				mine := loop
				mine.Turn = beat.Beat
				return mine.Run(ctx)
			})
		}
		return group.Wait()
	}
	closeAll := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := writer.Close(ctx); err != nil {
			s.log.Warn("the Kafka writer did not close in time", "error", err)
		}
		transport.CloseIdleConnections()
	}
	return part{"relay", run}, closeAll, nil
}

func (s *service) countPublished(report usecase.RelayReport, took time.Duration) {
	s.metrics.Claimed("kafka", took, report.Reclaimed)
	s.metrics.Fenced(report.Fenced)
	for topic, n := range report.Written {
		s.metrics.Published(topic, n, 0)
	}
	for topic, n := range report.Failed {
		s.metrics.Published(topic, 0, n)
	}
}

// kafkaConnections builds the two kinds of connections that the client library knows from one configuration.
func kafkaConnections(cfg Config) (*kafka.Dialer, *kafka.Transport, error) {
	mechanism, err := kafkaLogin(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("kafka SASL: %w", err)
	}
	dialer := &kafka.Dialer{ClientID: cfg.KafkaClientID, Timeout: kafkaDialTimeout, DualStack: true, SASLMechanism: mechanism}
	transport := &kafka.Transport{
		ClientID: cfg.KafkaClientID, DialTimeout: kafkaDialTimeout, IdleTimeout: 30 * time.Second, MetadataTTL: 2 * time.Second,
		SASL: mechanism,
	}
	if cfg.KafkaTLS {
		files := tlsDialer{cfg.KafkaTLSCAFile, cfg.KafkaTLSCertFile, cfg.KafkaTLSKeyFile}
		if _, _, err := tlsFiles(files.caFile, files.certFile, files.keyFile); err != nil {
			return nil, nil, fmt.Errorf("kafka TLS: %w", err)
		}
		dialer.DialFunc, transport.Dial = files.dial, files.dial
	}
	return dialer, transport, nil
}

func kafkaLogin(cfg Config) (sasl.Mechanism, error) {
	user, password := cfg.KafkaSASLUsername, string(cfg.KafkaSASLPassword)
	switch cfg.KafkaSASLMechanism {
	case "PLAIN":
		return plain.Mechanism{Username: user, Password: password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, user, password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, user, password)
	}
	return nil, nil //nolint:nilnil // no login is asked for
}

// kafkaCheck is shown in /readyz and never fails it: a rebalance must not take the API away.
func (s *service) kafkaCheck() (httpin.Check, func(), error) {
	_, transport, err := kafkaConnections(s.cfg)
	if err != nil {
		return httpin.Check{}, nil, err
	}
	client := &kafka.Client{Addr: kafka.TCP(s.cfg.KafkaBrokers...), Transport: transport, Timeout: time.Second}
	check := httpin.Check{Name: "kafka", Run: func(ctx context.Context) (string, error) {
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: s.cfg.KafkaTopics})
		if err != nil {
			return "", errors.New("unreachable") // the cause is in the log of the part that needs it
		}
		for _, topic := range answer.Topics {
			if topic.Error != nil {
				return "", fmt.Errorf("topic %s: %w", topic.Name, topic.Error)
			}
		}
		return fmt.Sprintf("%d brokers reachable", len(answer.Brokers)), nil
	}}
	return check, transport.CloseIdleConnections, nil
}

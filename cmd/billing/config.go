package main

import "time"

// Config is the whole configuration of the service, read once from the environment (contract §1).
// The tags are the single source: envconfig is the variable, default its default, need when it has
// to be set, desc its meaning, part which commands read it, and secret that it is never printed and
// may also come from the file that <variable>_FILE names.
type Config struct {
	Roles Roles `envconfig:"BILLING_ROLES" default:"consumer,charger,relay,maintenance" part:"serve" desc:"loops that this process runs: consumer, charger, relay, maintenance; add api for the HTTP way in"`

	DatabaseURL      Secret        `envconfig:"BILLING_DATABASE_URL" need:"always" secret:"true" part:"database" desc:"PostgreSQL URL, postgres://user:password@host:port/database"`
	DatabaseMaxConns int32         `envconfig:"BILLING_DATABASE_MAX_CONNS" default:"16" part:"database" desc:"connections of this process, at least 4; those of the charger are set apart"`
	Retention        time.Duration `envconfig:"BILLING_RETENTION" default:"168h" part:"database" desc:"how long the inbox remembers EventIDs, at least 1h; older ids are refused. Keep it above the retention.ms of the event topics"`
	ClockSkew        time.Duration `envconfig:"BILLING_CLOCK_SKEW" default:"24h" part:"database" desc:"how far ahead of the database's clock an EventID may be, at most 72h"`

	RetentionAttempts    time.Duration `envconfig:"BILLING_RETENTION_ATTEMPTS" default:"0s" part:"database" desc:"how long attempts of final charges are kept, at least 24h; 0 = for ever"`
	RetentionHistory     time.Duration `envconfig:"BILLING_RETENTION_HISTORY" default:"0s" part:"database" desc:"how long the published history of final charges is kept, at least 24h; 0 = for ever"`
	RetentionDeadLetters time.Duration `envconfig:"BILLING_RETENTION_DEAD_LETTERS" default:"2160h" part:"database" desc:"how long replayed and discarded dead letters are kept, at least 24h; 0 = for ever"`

	KafkaBrokers          List          `envconfig:"BILLING_KAFKA_BROKERS" need:"with consumer or relay" part:"kafka" desc:"brokers to start from, host:port separated by commas"`
	KafkaTopics           List          `envconfig:"BILLING_KAFKA_TOPICS" default:"order-service.order.confirmed" part:"kafka" desc:"topics with order events, separated by commas"`
	KafkaGroup            string        `envconfig:"BILLING_KAFKA_GROUP" default:"billing-order-confirmed" part:"kafka" desc:"consumer group; also names the inbox rows and the retry topics"`
	KafkaClientID         string        `envconfig:"BILLING_KAFKA_CLIENT_ID" default:"billing" part:"kafka" desc:"client id shown to the brokers"`
	KafkaResultsTopic     string        `envconfig:"BILLING_KAFKA_RESULTS_TOPIC" default:"billing.charge-results" part:"kafka" desc:"topic where results are announced"`
	KafkaDeadLetterTopic  string        `envconfig:"BILLING_KAFKA_DEAD_LETTER_TOPIC" default:"billing.order-confirmed.dlq" part:"kafka" desc:"topic for the copies of dead letters"`
	KafkaRetryDelays      Delays        `envconfig:"BILLING_KAFKA_RETRY_DELAYS" default:"10s,1m,10m" empty:"off" part:"kafka" desc:"pauses before a single message that keeps failing comes back by the topic <topic>.<group>.retry; after the last it is a dead letter. Empty = off"`
	KafkaIgnoreEventTypes List          `envconfig:"BILLING_KAFKA_IGNORE_EVENT_TYPES" part:"kafka" desc:"event types to count and skip instead of refusing them, separated by commas"`
	KafkaSessionTimeout   time.Duration `envconfig:"BILLING_KAFKA_SESSION_TIMEOUT" default:"15s" part:"kafka" desc:"silence after which the group takes the partitions away, at least 6s"`
	KafkaTLS              Switch        `envconfig:"BILLING_KAFKA_TLS" default:"off" part:"kafka" desc:"speak TLS with the brokers"`
	KafkaTLSCAFile        string        `envconfig:"BILLING_KAFKA_TLS_CA_FILE" part:"kafka" desc:"PEM file with the authorities of the brokers; empty = the system's"`
	KafkaTLSCertFile      string        `envconfig:"BILLING_KAFKA_TLS_CERT_FILE" part:"kafka" desc:"PEM file with the client certificate for the brokers"`
	KafkaTLSKeyFile       string        `envconfig:"BILLING_KAFKA_TLS_KEY_FILE" part:"kafka" desc:"PEM file with the key of that certificate"`
	KafkaSASLMechanism    string        `envconfig:"BILLING_KAFKA_SASL_MECHANISM" part:"kafka" desc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty = none"`
	KafkaSASLUsername     string        `envconfig:"BILLING_KAFKA_SASL_USERNAME" need:"with a SASL mechanism" part:"kafka" desc:"user name for SASL"`
	KafkaSASLPassword     Secret        `envconfig:"BILLING_KAFKA_SASL_PASSWORD" need:"with a SASL mechanism" secret:"true" part:"kafka" desc:"password for SASL"`

	ProviderAccount     string        `envconfig:"BILLING_PROVIDER_ACCOUNT" default:"default" part:"provider" desc:"name of the account behind the URL; change it when company or account changes: a charge sent for one account is never sent for another"`
	ProviderURL         string        `envconfig:"BILLING_PROVIDER_URL" need:"with charger" part:"provider" desc:"base URL of the payment provider: https, or http on loopback"`
	ProviderAllowHTTP   Switch        `envconfig:"BILLING_PROVIDER_ALLOW_HTTP" default:"false" part:"provider" desc:"allow plain http to the provider beyond loopback"`
	ProviderToken       Secret        `envconfig:"BILLING_PROVIDER_TOKEN" secret:"true" part:"provider" desc:"bearer token for the provider"`
	ProviderTokenFile   string        `ignored:"true"` // the file the token came from, which may be rotated; empty = none
	ProviderTLSCAFile   string        `envconfig:"BILLING_PROVIDER_TLS_CA_FILE" part:"provider" desc:"PEM file with the authorities of the provider; empty = the system's"`
	ProviderTLSCertFile string        `envconfig:"BILLING_PROVIDER_TLS_CERT_FILE" part:"provider" desc:"PEM file with the client certificate for the provider"`
	ProviderTLSKeyFile  string        `envconfig:"BILLING_PROVIDER_TLS_KEY_FILE" part:"provider" desc:"PEM file with the key of that certificate"`
	ProviderTimeout     time.Duration `envconfig:"BILLING_PROVIDER_TIMEOUT" default:"10s" part:"provider" desc:"time for one attempt until its answer was read"`
	ProviderConcurrency int           `envconfig:"BILLING_PROVIDER_CONCURRENCY" default:"64" part:"provider" desc:"requests in flight of this process, at least 1"`
	ProviderRate        float64       `envconfig:"BILLING_PROVIDER_RATE" default:"0" part:"provider" desc:"requests per second of this process; 0 = no limit"`
	ProviderKeyWindow   time.Duration `envconfig:"BILLING_PROVIDER_KEY_WINDOW" default:"24h" part:"provider" desc:"how long the provider remembers a key: no POST starts later than the first send + half of it; charge lease + timeout must be below that half. 0 = one POST ever"`
	ProviderLookup      Switch        `envconfig:"BILLING_PROVIDER_LOOKUP" default:"true" part:"provider" desc:"the provider answers look-up by key"`
	PendingMax          time.Duration `envconfig:"BILLING_PENDING_MAX" default:"72h" part:"provider" desc:"how long an accepted, not final charge is looked up before it is parked"`
	ChargeLease         time.Duration `envconfig:"BILLING_CHARGE_LEASE" default:"30s" part:"provider" desc:"how long a claim of a charge holds, at least 2 x provider timeout + 5s"`
	RetryMin            time.Duration `envconfig:"BILLING_RETRY_MIN" default:"500ms" part:"provider" desc:"shortest back-off between attempts"`
	RetryMax            time.Duration `envconfig:"BILLING_RETRY_MAX" default:"5m" part:"provider" desc:"longest back-off between attempts"`

	DefaultCurrency string `envconfig:"BILLING_DEFAULT_CURRENCY" default:"RUB" part:"events" desc:"currency of events that carry none"`
	MaxAmountMinor  int64  `envconfig:"BILLING_MAX_AMOUNT_MINOR" default:"1000000000" part:"events" desc:"largest amount in minor units; larger is refused"`

	DeadLetterBrake Share         `envconfig:"BILLING_DEAD_LETTER_BRAKE" default:"0.5" part:"serve" desc:"share of a minute's messages (at least 100) that would become dead letters, above which the partition pauses until billing partitions release; 0 = off"`
	RelayLease      time.Duration `envconfig:"BILLING_RELAY_LEASE" default:"30s" part:"serve" desc:"how long a claim of a message to publish holds, at least 10s"`
	HTTPAddr        string        `envconfig:"BILLING_HTTP_ADDR" default:":8080" part:"serve" desc:"address of the API, host:port; port 0 picks a free one and logs it"`
	OpsAddr         string        `envconfig:"BILLING_OPS_ADDR" default:":9090" part:"serve" desc:"address of metrics and health, host:port; port 0 picks a free one and logs it"`
	PprofAddr       string        `envconfig:"BILLING_PPROF_ADDR" part:"serve" desc:"address of profiles, loopback only; empty = off"`
	APITokensFile   string        `envconfig:"BILLING_API_TOKENS_FILE" need:"with api" part:"serve" desc:"JSON file with the API's clients, token hashes and scopes; read again when it changes"`
	APIRate         float64       `envconfig:"BILLING_API_RATE" default:"100" part:"serve" desc:"API requests per second of one client to this process; 0 = no limit"`
	KeyTTL          time.Duration `envconfig:"BILLING_IDEMPOTENCY_KEY_TTL" default:"24h" part:"serve" desc:"how long the API remembers an Idempotency-Key with its answer, at least 1h"`
	ShutdownTimeout time.Duration `envconfig:"BILLING_SHUTDOWN_TIMEOUT" default:"25s" part:"serve" desc:"time to stop, at least 5s; then the process ends with code 1"`

	LogLevel  string `envconfig:"BILLING_LOG_LEVEL" default:"info" part:"log" desc:"debug, info, warn or error"`
	LogFormat string `envconfig:"BILLING_LOG_FORMAT" default:"json" part:"log" desc:"json or text"`
}

// Parts says which variables a command reads. The others are not looked at and keep their defaults,
// so that a migration job needs neither brokers nor the provider's token.
type Parts uint8

// The parts. Only PartServe asks for what the roles need: any other command finds an optional part
// unset and says itself that it is missing.
const (
	PartDatabase Parts = 1 << iota
	PartKafka
	PartProvider
	PartEvents
	PartServe

	PartsAll = PartDatabase | PartKafka | PartProvider | PartEvents | PartServe
)

// partNames are the words of the part tag. Logging is read by every command.
func partNames() map[string]Parts {
	return map[string]Parts{
		"database": PartDatabase, "kafka": PartKafka, "provider": PartProvider, "events": PartEvents, "serve": PartServe,
		"log": PartsAll,
	}
}

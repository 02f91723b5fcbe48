package main

import (
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/observe"
)

// Bounds of the contract, §1.
const (
	minConns           = 4
	minRetention       = time.Hour
	minRemains         = 24 * time.Hour
	maxClockSkew       = 72 * time.Hour
	minSessionTimeout  = 6 * time.Second
	minRelayLease      = 10 * time.Second
	minShutdownTimeout = 5 * time.Second
	minKeyTTL          = time.Hour
	leaseMargin        = 5 * time.Second // to settle, on top of two timeouts
)

// checkRules checks what lies between fields, and bounds that the types don't know.
func (l *loader) checkRules() {
	l.oneOf("BILLING_LOG_LEVEL", l.cfg.LogLevel, observe.LogLevels...)
	l.oneOf("BILLING_LOG_FORMAT", l.cfg.LogFormat, observe.LogFormats...)
	for _, rules := range []struct {
		part  Parts
		check func()
	}{
		{PartDatabase, l.checkDatabase},
		{PartKafka, l.checkKafka},
		{PartKafka, l.checkTopics},
		{PartKafka, l.checkKafkaLogin},
		{PartProvider, l.checkProvider},
		{PartProvider, l.checkCharging},
		{PartEvents, l.checkEvents},
		{PartServe, l.checkServe},
		{PartServe, l.checkRoles},
	} {
		if rules.part&l.parts != 0 {
			rules.check()
		}
	}
}

func (l *loader) checkDatabase() {
	l.checkDatabaseURL()
	if l.cfg.DatabaseMaxConns < minConns {
		l.bound("BILLING_DATABASE_MAX_CONNS", "want at least %d", minConns)
	}
	if l.cfg.Retention < minRetention {
		l.bound("BILLING_RETENTION", "want at least %s", minRetention)
	}
	for variable, period := range map[string]time.Duration{
		"BILLING_RETENTION_ATTEMPTS": l.cfg.RetentionAttempts, "BILLING_RETENTION_HISTORY": l.cfg.RetentionHistory,
		"BILLING_RETENTION_DEAD_LETTERS": l.cfg.RetentionDeadLetters,
	} {
		if period != 0 && period < minRemains {
			l.bound(variable, "want at least %s, or 0 for ever", minRemains)
		}
	}
	if l.cfg.ClockSkew < 0 || l.cfg.ClockSkew > maxClockSkew {
		l.bound("BILLING_CLOCK_SKEW", "want 0s to %s", maxClockSkew)
	}
}

func (l *loader) checkDatabaseURL() {
	const name = "BILLING_DATABASE_URL"
	if !l.sound(name, name+fileSuffix) {
		return
	}
	if l.cfg.DatabaseURL == "" {
		l.fault(name, "is required, want postgres://user:password@host:port/database, here or in the file that %s%s names", name, fileSuffix)
		return
	}
	parsed, err := pgx.ParseConfig(string(l.cfg.DatabaseURL))
	if err != nil { // its text may show the password
		l.fault(name, "is not a PostgreSQL URL, or names a file that cannot be read, want postgres://user:password@host:port/database")
		return
	}
	for parameter := range parsed.RuntimeParams {
		if strings.HasPrefix(parameter, "pool_") {
			l.fault(name, "holds a pool_ parameter, use BILLING_DATABASE_MAX_CONNS instead")
			return
		}
	}
}

func (l *loader) checkKafka() {
	for _, broker := range l.cfg.KafkaBrokers {
		if !hostPort(broker, false) {
			l.fault("BILLING_KAFKA_BROKERS", "has an entry that is not host:port, want for example kafka-1:9092,kafka-2:9092")
			break
		}
	}
	if l.cfg.KafkaSessionTimeout < minSessionTimeout {
		l.bound("BILLING_KAFKA_SESSION_TIMEOUT", "want at least %s", minSessionTimeout)
	}
	if slices.ContainsFunc(l.cfg.KafkaIgnoreEventTypes, orderEvent) {
		l.fault("BILLING_KAFKA_IGNORE_EVENT_TYPES", "names an event type that orders a charge, those are never ignored")
	}
}

// orderEvent reports whether an event type is one of the two that order a charge, contract §2.
func orderEvent(eventType string) bool {
	return eventType == "OrderConfirmed" || eventType == "order.confirmed.v1"
}

func kafkaName(name string) bool {
	return regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`).MatchString(name) && name != "." && name != ".."
}

func (l *loader) checkTopics() {
	const want = "is not a Kafka name, want 1 to 249 letters, digits, dots, underscores and hyphens"
	names := map[string]string{
		"BILLING_KAFKA_GROUP":             l.cfg.KafkaGroup,
		"BILLING_KAFKA_CLIENT_ID":         l.cfg.KafkaClientID,
		"BILLING_KAFKA_RESULTS_TOPIC":     l.cfg.KafkaResultsTopic,
		"BILLING_KAFKA_DEAD_LETTER_TOPIC": l.cfg.KafkaDeadLetterTopic,
	}
	for variable, name := range names {
		if l.sound(variable) && !kafkaName(name) {
			l.fault(variable, want)
		}
	}
	if slices.ContainsFunc(l.cfg.KafkaTopics, func(topic string) bool { return !kafkaName(topic) }) {
		l.fault("BILLING_KAFKA_TOPICS", "has an entry that "+want)
	}
	if !l.sound("BILLING_KAFKA_TOPICS", "BILLING_KAFKA_GROUP") {
		return
	}
	for _, topic := range l.cfg.KafkaTopics {
		if retry := topic + "." + l.cfg.KafkaGroup + ".retry"; len(l.cfg.KafkaRetryDelays) > 0 && !kafkaName(retry) {
			l.fault("BILLING_KAFKA_GROUP", "is too long for the retry topic <topic>.<group>.retry of %d letters, want at most 249", len(retry))
		}
	}
	l.checkLoops()
}

// checkLoops refuses to consume what the service itself publishes.
func (l *loader) checkLoops() {
	for variable, topic := range map[string]string{
		"BILLING_KAFKA_RESULTS_TOPIC":     l.cfg.KafkaResultsTopic,
		"BILLING_KAFKA_DEAD_LETTER_TOPIC": l.cfg.KafkaDeadLetterTopic,
	} {
		if slices.Contains(l.cfg.KafkaTopics, topic) {
			l.fault(variable, "is also one of BILLING_KAFKA_TOPICS, the service would consume its own messages")
		}
	}
}

func (l *loader) checkKafkaLogin() {
	l.checkTLSFiles("BILLING_KAFKA_TLS", l.cfg.KafkaTLSCAFile, l.cfg.KafkaTLSCertFile, l.cfg.KafkaTLSKeyFile)
	if files := l.cfg.KafkaTLSCAFile + l.cfg.KafkaTLSCertFile + l.cfg.KafkaTLSKeyFile; files != "" && !l.cfg.KafkaTLS {
		l.bound("BILLING_KAFKA_TLS", "is off and files for it are set, want true or no files")
	}
	const mechanism, username, password = "BILLING_KAFKA_SASL_MECHANISM", "BILLING_KAFKA_SASL_USERNAME", "BILLING_KAFKA_SASL_PASSWORD" //nolint:gosec // names, not values
	if l.cfg.KafkaSASLMechanism == "" {
		if l.cfg.KafkaSASLUsername != "" || l.cfg.KafkaSASLPassword != "" {
			l.fault(mechanism, "is required with a SASL user name or password, want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		}
		return
	}
	l.oneOf(mechanism, l.cfg.KafkaSASLMechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	if l.cfg.KafkaSASLUsername == "" {
		l.fault(username, "is required with %s", mechanism)
	}
	if l.cfg.KafkaSASLPassword == "" && l.sound(password, password+fileSuffix) {
		l.fault(password, "is required with %s, here or in the file that %s%s names", mechanism, password, fileSuffix)
	}
}

func (l *loader) checkTLSFiles(stem, ca, cert, key string) {
	l.readable(stem+"_CA_FILE", ca)
	l.readable(stem+"_CERT_FILE", cert)
	l.readable(stem+"_KEY_FILE", key)
	if cert != "" && key == "" {
		l.fault(stem+"_KEY_FILE", "is required with %s_CERT_FILE", stem)
	}
	if key != "" && cert == "" {
		l.fault(stem+"_CERT_FILE", "is required with %s_KEY_FILE", stem)
	}
}

func (l *loader) readable(variable, path string) {
	if path == "" {
		return
	}
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		l.fault(variable, "%s", unreadable(err))
		return
	}
	_ = file.Close() // nothing was written
}

func (l *loader) checkProvider() {
	l.checkProviderURL()
	stem := "BILLING_PROVIDER_TLS"
	l.checkTLSFiles(stem, l.cfg.ProviderTLSCAFile, l.cfg.ProviderTLSCertFile, l.cfg.ProviderTLSKeyFile)
	if !regexp.MustCompile(`^[!-~]{1,64}$`).MatchString(l.cfg.ProviderAccount) {
		l.bound("BILLING_PROVIDER_ACCOUNT", "want 1 to 64 printable ASCII characters without spaces")
	}
	if !regexp.MustCompile(`^[!-~]*$`).MatchString(string(l.cfg.ProviderToken)) {
		l.fault("BILLING_PROVIDER_TOKEN", "holds a space, a line break or another character that no header can carry")
	}
	if l.cfg.ProviderConcurrency < 1 {
		l.bound("BILLING_PROVIDER_CONCURRENCY", "want at least 1")
	}
	if rate := l.cfg.ProviderRate; math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		l.bound("BILLING_PROVIDER_RATE", "want 0 or more requests per second")
	}
}

func (l *loader) checkProviderURL() {
	const name = "BILLING_PROVIDER_URL"
	if l.cfg.ProviderURL == "" {
		return // checkRoles knows whether it is needed
	}
	u, err := url.Parse(l.cfg.ProviderURL)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"https", "http"}, u.Scheme):
		l.fault(name, "is not a URL, want for example https://pay.example.com/v1")
	case u.User != nil:
		l.fault(name, "holds a user or password, use BILLING_PROVIDER_TOKEN")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		l.fault(name, "holds a query or fragment, paths are appended to it")
	case u.Scheme == "http" && !loopback(u.Hostname()) && !bool(l.cfg.ProviderAllowHTTP):
		l.bound(name, "is plain http beyond loopback, want https, or BILLING_PROVIDER_ALLOW_HTTP=true")
	}
}

func (l *loader) checkCharging() {
	const timeout, lease, window = "BILLING_PROVIDER_TIMEOUT", "BILLING_CHARGE_LEASE", "BILLING_PROVIDER_KEY_WINDOW"
	if l.cfg.ProviderTimeout <= 0 {
		l.bound(timeout, "want more than 0s")
	}
	short := l.cfg.ChargeLease <= leaseMargin || (l.cfg.ChargeLease-leaseMargin)/2 < l.cfg.ProviderTimeout // so that nothing overflows
	if short && l.sound(timeout) {
		l.bound(lease, "is %s, want at least 2 x %s (%s) + %s", l.cfg.ChargeLease, timeout, l.cfg.ProviderTimeout, leaseMargin)
	}
	if l.cfg.ProviderKeyWindow < 0 {
		l.bound(window, "want 0 or a positive duration")
	}
	narrow := l.cfg.ProviderKeyWindow > 0 && l.cfg.ProviderKeyWindow/2-l.cfg.ChargeLease <= l.cfg.ProviderTimeout
	if narrow && l.sound(timeout, lease) {
		l.bound(window, "is %s, want more than 2 x (%s + %s), or 0 for one POST ever", l.cfg.ProviderKeyWindow, lease, timeout)
	}
	if l.cfg.PendingMax <= 0 {
		l.bound("BILLING_PENDING_MAX", "want more than 0s")
	}
	l.checkRetries()
}

func (l *loader) checkRetries() {
	if l.cfg.RetryMin <= 0 {
		l.bound("BILLING_RETRY_MIN", "want more than 0s")
	}
	if l.cfg.RetryMin > l.cfg.RetryMax && l.sound("BILLING_RETRY_MIN") {
		l.bound("BILLING_RETRY_MAX", "is %s, want at least BILLING_RETRY_MIN (%s)", l.cfg.RetryMax, l.cfg.RetryMin)
	}
}

func (l *loader) checkEvents() {
	if _, ok := domain.Exponent(l.cfg.DefaultCurrency); !ok {
		l.bound("BILLING_DEFAULT_CURRENCY", "want a currency of ISO 4217 such as RUB")
	}
	if l.cfg.MaxAmountMinor <= 0 {
		l.bound("BILLING_MAX_AMOUNT_MINOR", "want more than 0")
	}
}

// bound is fault for a variable that could be read: one complaint about each is enough.
func (l *loader) bound(variable, format string, args ...any) {
	if l.sound(variable) {
		l.fault(variable, format, args...)
	}
}

func (l *loader) oneOf(variable, value string, words ...string) {
	if !slices.Contains(words, value) {
		l.bound(variable, "want one of %s", strings.Join(words, ", "))
	}
}

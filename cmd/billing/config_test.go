package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// canary stands where secrets stand; it must come out nowhere.
const canary = "c4n4ry-s3cret"

// goodEnv is the least that all roles need.
func goodEnv(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"BILLING_ROLES":           "consumer,charger,relay,maintenance,api",
		"BILLING_DATABASE_URL":    "postgres://billing:" + canary + "@db:5432/billing",
		"BILLING_KAFKA_BROKERS":   "kafka-1:9092, kafka-2:9092",
		"BILLING_PROVIDER_URL":    "https://pay.example.com/v1",
		"BILLING_PROVIDER_TOKEN":  canary,
		"BILLING_API_TOKENS_FILE": write(t, `{"clients":[]}`),
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

func billing(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, environ(env), &out, &errs)
	return code, out.String(), errs.String()
}

func checkNoCanary(t *testing.T, outputs ...string) {
	t.Helper()
	for _, output := range outputs {
		if strings.Contains(output, canary) {
			t.Errorf("the secret was printed:\n%s", output)
		}
	}
}

func TestGoodConfigurationIsRead(t *testing.T) {
	t.Parallel()
	env := goodEnv(t)
	maps.Copy(env, map[string]string{
		"BILLING_PROVIDER_TOKEN":           "",
		"BILLING_PROVIDER_TOKEN_FILE":      write(t, canary+"\r\n"),
		"BILLING_KAFKA_RETRY_DELAYS":       "",
		"BILLING_KAFKA_TLS":                "ON",
		"BILLING_PROVIDER_URL":             "http://127.0.0.1:9999",
		"BILLING_PROVIDER_KEY_WINDOW":      "0",
		"BILLING_MAX_AMOUNT_MINOR":         "1_000",
		"BILLING_HTTP_ADDR":                "127.0.0.1:0",
		"BILLING_PPROF_ADDR":               "[::1]:0",
		"BILLING_OPS_SERVICE_HOST":         "10.0.0.1", // Kubernetes: a Service named billing-ops
		"BILLING_OPS_SERVICE_PORT_METRICS": "9090",
		"BILLING_OPS_PORT":                 "tcp://10.0.0.1:9090",
		"BILLING_OPS_PORT_9090_TCP_ADDR":   "10.0.0.1",
		"PATH":                             "/bin",
	})
	cfg, err := LoadConfig(environ(env), PartsAll)
	if err != nil {
		t.Fatal(err)
	}
	if string(cfg.ProviderToken) != canary || cfg.ProviderTokenFile != env["BILLING_PROVIDER_TOKEN_FILE"] {
		t.Error("the token is not the file's content without its newline")
	}
	if want := (List{"kafka-1:9092", "kafka-2:9092"}); !slices.Equal(cfg.KafkaBrokers, want) {
		t.Errorf("brokers %q, want %q", cfg.KafkaBrokers, want)
	}
	if len(cfg.KafkaRetryDelays) != 0 || !bool(cfg.KafkaTLS) || cfg.MaxAmountMinor != 1000 || cfg.ProviderKeyWindow != 0 {
		t.Errorf("got %+v", cfg)
	}
	if !cfg.Roles.Has(RoleAPI) || cfg.Roles.Has("other") {
		t.Errorf("roles %q", cfg.Roles)
	}
}

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	cfg, err := LoadConfig([]string{"BILLING_DATABASE_URL=postgres://db/billing", "BILLING_KAFKA_BROKERS=k:1", "BILLING_PROVIDER_URL=https://p"}, PartsAll)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Roles: Roles{"consumer", "charger", "relay", "maintenance"}, DatabaseURL: "postgres://db/billing", DatabaseMaxConns: 16,
		Retention: 168 * time.Hour, RetentionDeadLetters: 2160 * time.Hour, ClockSkew: 24 * time.Hour, KafkaBrokers: List{"k:1"},
		KafkaTopics: List{"order-service.order.confirmed"}, KafkaGroup: "billing-order-confirmed", KafkaClientID: "billing",
		KafkaResultsTopic: "billing.charge-results", KafkaDeadLetterTopic: "billing.order-confirmed.dlq",
		KafkaRetryDelays: Delays{10 * time.Second, time.Minute, 10 * time.Minute}, KafkaSessionTimeout: 15 * time.Second,
		ProviderAccount: "default", ProviderURL: "https://p", ProviderTimeout: 10 * time.Second, ProviderConcurrency: 64,
		ProviderKeyWindow: 24 * time.Hour, ProviderLookup: true, PendingMax: 72 * time.Hour, ChargeLease: 30 * time.Second,
		RetryMin: 500 * time.Millisecond, RetryMax: 5 * time.Minute, DefaultCurrency: "RUB", MaxAmountMinor: 1_000_000_000,
		DeadLetterBrake: 0.5, RelayLease: 30 * time.Second, APIRate: 100, KeyTTL: 24 * time.Hour, HTTPAddr: ":8080", OpsAddr: ":9090", ShutdownTimeout: 25 * time.Second,
		LogLevel: "info", LogFormat: "json",
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}
}

func TestMigrationNeedsOnlyTheDatabase(t *testing.T) {
	t.Parallel()
	env := []string{
		"BILLING_DATABASE_URL=postgres://db/billing", "BILLING_RETENTION=2h", "BILLING_ROLES=nonsense",
		"BILLING_PROVIDER_TIMEOUT=nonsense", "BILLING_PROVIDER_TOKEN_FILE=/not/mounted/here", "BILLING_KAFKA_SESSION_TIMEOUT=1s",
	}
	cfg, err := LoadConfig(env, PartDatabase)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Retention != 2*time.Hour || cfg.ProviderTimeout != 10*time.Second {
		t.Errorf("got retention %s and timeout %s, want 2h0m0s and the default", cfg.Retention, cfg.ProviderTimeout)
	}
	if _, err := LoadConfig(nil, PartDatabase|PartProvider); err == nil || strings.Contains(err.Error(), "PROVIDER") {
		t.Errorf("got %v, want a fault of the database URL only", err)
	}
}

func TestUnknownVariableIsAFaultForEveryCommand(t *testing.T) {
	t.Parallel()
	_, err := LoadConfig([]string{"BILLING_DATABASE_URL=postgres://db/billing", "BILLING_DATABASE_MAX_CONN=5"}, PartDatabase)
	if e, ok := errors.AsType[*ConfigError](err); !ok || len(e.Faults) != 1 || e.Faults[0].Variable != "BILLING_DATABASE_MAX_CONN" {
		t.Errorf("got %v, want one fault of BILLING_DATABASE_MAX_CONN", err)
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	for _, v := range variables() {
		field := reflect.TypeFor[Config]().Field(v.index)
		if !strings.HasPrefix(v.name, prefix) || v.desc == "" || v.part == 0 {
			t.Errorf("%s has name %q, meaning %q, part %d", field.Name, v.name, v.desc, v.part)
		}
		if v.secret != (field.Type == reflect.TypeFor[Secret]()) {
			t.Errorf("%s is a secret by tag or by type only", field.Name)
		}
		if strings.ContainsAny(v.desc+v.def, "|\n\t") {
			t.Errorf("%s would break the tables", field.Name)
		}
	}
}

func TestMessagesNameOnlyRealVariables(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, v := range variables() {
		known[v.name] = true
	}
	for _, file := range []string{"configrules.go", "configserve.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`BILLING_[A-Z_]+`).FindAllString(string(source), -1) {
			if !known[name] && !known[name+"_CA_FILE"] {
				t.Errorf("%s speaks of %s, which does not exist", file, name)
			}
		}
	}
}

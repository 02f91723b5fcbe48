package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestConfigurationMistakesAreNamed(t *testing.T) {
	t.Parallel()
	unset := "\x00unset"
	for name, tc := range map[string]struct {
		set  map[string]string
		want []string
	}{
		"database URL missing":    {map[string]string{"BILLING_DATABASE_URL": unset}, []string{"BILLING_DATABASE_URL: is required, want postgres://user:password@host:port/database, here or in the file that BILLING_DATABASE_URL_FILE names"}},
		"database URL empty":      {map[string]string{"BILLING_DATABASE_URL": ""}, []string{"BILLING_DATABASE_URL: is required, want postgres://"}},
		"database URL malformed":  {map[string]string{"BILLING_DATABASE_URL": "postgres://u:" + canary + "@db:port/x"}, []string{"BILLING_DATABASE_URL: is not a PostgreSQL URL, or names a file that cannot be read, want postgres://user:password@host:port/database"}},
		"pool parameter in URL":   {map[string]string{"BILLING_DATABASE_URL": "postgres://u:" + canary + "@db/x?pool_max_conns=3"}, []string{"BILLING_DATABASE_URL: holds a pool_ parameter, use BILLING_DATABASE_MAX_CONNS instead"}},
		"secret twice":            {map[string]string{"BILLING_DATABASE_URL_FILE": canary}, []string{"BILLING_DATABASE_URL: is set together with BILLING_DATABASE_URL_FILE, want one of them"}},
		"secret as path":          {map[string]string{"BILLING_PROVIDER_TOKEN": unset, "BILLING_PROVIDER_TOKEN_FILE": "/" + canary}, []string{"BILLING_PROVIDER_TOKEN_FILE: names a file that cannot be read: no such file or directory"}},
		"secret from a folder":    {map[string]string{"BILLING_PROVIDER_TOKEN": unset, "BILLING_PROVIDER_TOKEN_FILE": t.TempDir()}, []string{"BILLING_PROVIDER_TOKEN_FILE: names a file that cannot be read: is a directory"}},
		"secret file empty":       {map[string]string{"BILLING_PROVIDER_TOKEN": unset, "BILLING_PROVIDER_TOKEN_FILE": write(t, "\n")}, []string{"BILLING_PROVIDER_TOKEN_FILE: names an empty file"}},
		"secret file large":       {map[string]string{"BILLING_PROVIDER_TOKEN": unset, "BILLING_PROVIDER_TOKEN_FILE": write(t, strings.Repeat("x", maxSecret+1))}, []string{"BILLING_PROVIDER_TOKEN_FILE: names a file over 65536 bytes"}},
		"token of two lines":      {map[string]string{"BILLING_PROVIDER_TOKEN": canary + "\nx"}, []string{"BILLING_PROVIDER_TOKEN: holds a space, a line break or another character that no header can carry"}},
		"few connections":         {map[string]string{"BILLING_DATABASE_MAX_CONNS": "3"}, []string{"BILLING_DATABASE_MAX_CONNS: want at least 4"}},
		"connections as word":     {map[string]string{"BILLING_DATABASE_MAX_CONNS": canary}, []string{"BILLING_DATABASE_MAX_CONNS: is not a whole decimal number, or too large"}},
		"connections octal":       {map[string]string{"BILLING_DATABASE_MAX_CONNS": "016"}, []string{"BILLING_DATABASE_MAX_CONNS: is not a whole decimal number, or too large"}},
		"connections too many":    {map[string]string{"BILLING_DATABASE_MAX_CONNS": "99999999999"}, []string{"BILLING_DATABASE_MAX_CONNS: is not a whole decimal number, or too large"}},
		"unknown role":            {map[string]string{"BILLING_ROLES": "consumer,chrager"}, []string{"BILLING_ROLES: names an unknown role, want a list of consumer, charger, relay, maintenance, api"}},
		"no role":                 {map[string]string{"BILLING_ROLES": ""}, []string{"BILLING_ROLES: is empty, unset it for the default consumer,charger,relay,maintenance"}},
		"role twice":              {map[string]string{"BILLING_ROLES": "relay,relay"}, []string{"BILLING_ROLES: names an entry twice"}},
		"brokers missing":         {map[string]string{"BILLING_KAFKA_BROKERS": unset}, []string{"BILLING_KAFKA_BROKERS: is required with role consumer or relay"}},
		"broker without port":     {map[string]string{"BILLING_KAFKA_BROKERS": "kafka:9092,kafka"}, []string{"BILLING_KAFKA_BROKERS: has an entry that is not host:port, want for example kafka-1:9092,kafka-2:9092"}},
		"broker as URL":           {map[string]string{"BILLING_KAFKA_BROKERS": "user:" + canary + "@kafka:9092"}, []string{"BILLING_KAFKA_BROKERS: has an entry that is not host:port"}},
		"topics with a gap":       {map[string]string{"BILLING_KAFKA_TOPICS": "a,,b"}, []string{"BILLING_KAFKA_TOPICS: has an empty entry, want a list separated by commas"}},
		"topics empty":            {map[string]string{"BILLING_KAFKA_TOPICS": ""}, []string{"BILLING_KAFKA_TOPICS: is empty, unset it for the default order-service.order.confirmed"}},
		"topic name":              {map[string]string{"BILLING_KAFKA_TOPICS": "a/b"}, []string{"BILLING_KAFKA_TOPICS: has an entry that is not a Kafka name, want 1 to 249 letters, digits, dots, underscores and hyphens"}},
		"group empty":             {map[string]string{"BILLING_KAFKA_GROUP": ""}, []string{"BILLING_KAFKA_GROUP: is empty, unset it for the default billing-order-confirmed"}},
		"group name":              {map[string]string{"BILLING_KAFKA_GROUP": "a b"}, []string{"BILLING_KAFKA_GROUP: is not a Kafka name"}},
		"retry topic too long":    {map[string]string{"BILLING_KAFKA_GROUP": strings.Repeat("g", 240)}, []string{"BILLING_KAFKA_GROUP: is too long for the retry topic <topic>.<group>.retry of 276 letters, want at most 249"}},
		"client id empty":         {map[string]string{"BILLING_KAFKA_CLIENT_ID": ""}, []string{"BILLING_KAFKA_CLIENT_ID: is empty, unset it for the default billing"}},
		"own results consumed":    {map[string]string{"BILLING_KAFKA_RESULTS_TOPIC": "a", "BILLING_KAFKA_TOPICS": "b,a"}, []string{"BILLING_KAFKA_RESULTS_TOPIC: is also one of BILLING_KAFKA_TOPICS, the service would consume its own messages"}},
		"order events ignored":    {map[string]string{"BILLING_KAFKA_IGNORE_EVENT_TYPES": "OrderCancelled,OrderConfirmed"}, []string{"BILLING_KAFKA_IGNORE_EVENT_TYPES: names an event type that orders a charge, those are never ignored"}},
		"retry delays":            {map[string]string{"BILLING_KAFKA_RETRY_DELAYS": "10s,0s"}, []string{"BILLING_KAFKA_RETRY_DELAYS: is not a list of positive durations, want for example 10s,1m,10m or empty"}},
		"retry delays too many":   {map[string]string{"BILLING_KAFKA_RETRY_DELAYS": strings.Repeat("1s,", 16) + "1s"}, []string{"BILLING_KAFKA_RETRY_DELAYS: has 17 entries, want at most 16"}},
		"brake above one":         {map[string]string{"BILLING_DEAD_LETTER_BRAKE": "1.5"}, []string{"BILLING_DEAD_LETTER_BRAKE: want a number from 0 to 1"}},
		"brake no number":         {map[string]string{"BILLING_DEAD_LETTER_BRAKE": "NaN"}, []string{"BILLING_DEAD_LETTER_BRAKE: want a number from 0 to 1"}},
		"short session":           {map[string]string{"BILLING_KAFKA_SESSION_TIMEOUT": "5s"}, []string{"BILLING_KAFKA_SESSION_TIMEOUT: want at least 6s"}},
		"TLS switch":              {map[string]string{"BILLING_KAFKA_TLS": "maybe"}, []string{"BILLING_KAFKA_TLS: want true or false"}},
		"TLS files without TLS":   {map[string]string{"BILLING_KAFKA_TLS_CA_FILE": write(t, "x")}, []string{"BILLING_KAFKA_TLS: is off and files for it are set, want true or no files"}},
		"TLS file missing":        {map[string]string{"BILLING_KAFKA_TLS": "on", "BILLING_KAFKA_TLS_CA_FILE": "/nowhere"}, []string{"BILLING_KAFKA_TLS_CA_FILE: names a file that cannot be read: no such file or directory"}},
		"certificate without key": {map[string]string{"BILLING_PROVIDER_TLS_CERT_FILE": write(t, "x")}, []string{"BILLING_PROVIDER_TLS_KEY_FILE: is required with BILLING_PROVIDER_TLS_CERT_FILE"}},
		"key without certificate": {map[string]string{"BILLING_PROVIDER_TLS_KEY_FILE": write(t, "x")}, []string{"BILLING_PROVIDER_TLS_CERT_FILE: is required with BILLING_PROVIDER_TLS_KEY_FILE"}},
		"SASL mechanism":          {map[string]string{"BILLING_KAFKA_SASL_MECHANISM": "GSSAPI", "BILLING_KAFKA_SASL_USERNAME": "u", "BILLING_KAFKA_SASL_PASSWORD": canary}, []string{"BILLING_KAFKA_SASL_MECHANISM: want one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"}},
		"SASL alone":              {map[string]string{"BILLING_KAFKA_SASL_MECHANISM": "PLAIN"}, []string{"BILLING_KAFKA_SASL_USERNAME: is required with BILLING_KAFKA_SASL_MECHANISM", "BILLING_KAFKA_SASL_PASSWORD: is required with BILLING_KAFKA_SASL_MECHANISM, here or in the file that BILLING_KAFKA_SASL_PASSWORD_FILE names"}},
		"SASL without mechanism":  {map[string]string{"BILLING_KAFKA_SASL_PASSWORD": canary}, []string{"BILLING_KAFKA_SASL_MECHANISM: is required with a SASL user name or password, want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"}},
		"account empty":           {map[string]string{"BILLING_PROVIDER_ACCOUNT": ""}, []string{"BILLING_PROVIDER_ACCOUNT: is empty, unset it for the default default"}},
		"account with space":      {map[string]string{"BILLING_PROVIDER_ACCOUNT": "a b"}, []string{"BILLING_PROVIDER_ACCOUNT: want 1 to 64 printable ASCII characters without spaces"}},
		"provider missing":        {map[string]string{"BILLING_PROVIDER_URL": unset}, []string{"BILLING_PROVIDER_URL: is required with role charger"}},
		"provider malformed":      {map[string]string{"BILLING_PROVIDER_URL": "https://%zz" + canary}, []string{"BILLING_PROVIDER_URL: is not a URL, want for example https://pay.example.com/v1"}},
		"provider without host":   {map[string]string{"BILLING_PROVIDER_URL": "pay.example.com"}, []string{"BILLING_PROVIDER_URL: is not a URL, want for example https://pay.example.com/v1"}},
		"provider by http":        {map[string]string{"BILLING_PROVIDER_URL": "http://pay.example.com"}, []string{"BILLING_PROVIDER_URL: is plain http beyond loopback, want https, or BILLING_PROVIDER_ALLOW_HTTP=true"}},
		"provider with password":  {map[string]string{"BILLING_PROVIDER_URL": "https://u:" + canary + "@pay.example.com"}, []string{"BILLING_PROVIDER_URL: holds a user or password, use BILLING_PROVIDER_TOKEN"}},
		"provider with query":     {map[string]string{"BILLING_PROVIDER_URL": "https://pay.example.com/?a=b"}, []string{"BILLING_PROVIDER_URL: holds a query or fragment, paths are appended to it"}},
		"timeout without unit":    {map[string]string{"BILLING_PROVIDER_TIMEOUT": "10"}, []string{"BILLING_PROVIDER_TIMEOUT: is not a duration, want for example 500ms, 30s or 24h"}},
		"timeout zero":            {map[string]string{"BILLING_PROVIDER_TIMEOUT": "0s"}, []string{"BILLING_PROVIDER_TIMEOUT: want more than 0s"}},
		"timeout endless":         {map[string]string{"BILLING_PROVIDER_TIMEOUT": "2562047h"}, []string{"BILLING_CHARGE_LEASE: is 30s, want at least 2 x BILLING_PROVIDER_TIMEOUT (2562047h0m0s) + 5s"}},
		"short lease":             {map[string]string{"BILLING_CHARGE_LEASE": "24s"}, []string{"BILLING_CHARGE_LEASE: is 24s, want at least 2 x BILLING_PROVIDER_TIMEOUT (10s) + 5s"}},
		"negative lease":          {map[string]string{"BILLING_CHARGE_LEASE": "-2562047h47m16.854775808s"}, []string{"BILLING_CHARGE_LEASE: is -2562047h47m16.854775808s, want at least"}},
		"narrow window":           {map[string]string{"BILLING_PROVIDER_KEY_WINDOW": "80s"}, []string{"BILLING_PROVIDER_KEY_WINDOW: is 1m20s, want more than 2 x (BILLING_CHARGE_LEASE + BILLING_PROVIDER_TIMEOUT), or 0 for one POST ever"}},
		"negative window":         {map[string]string{"BILLING_PROVIDER_KEY_WINDOW": "-1h"}, []string{"BILLING_PROVIDER_KEY_WINDOW: want 0 or a positive duration"}},
		"no concurrency":          {map[string]string{"BILLING_PROVIDER_CONCURRENCY": "0"}, []string{"BILLING_PROVIDER_CONCURRENCY: want at least 1"}},
		"negative rate":           {map[string]string{"BILLING_PROVIDER_RATE": "-1"}, []string{"BILLING_PROVIDER_RATE: want 0 or more requests per second"}},
		"endless rate":            {map[string]string{"BILLING_PROVIDER_RATE": "+Inf"}, []string{"BILLING_PROVIDER_RATE: want 0 or more requests per second"}},
		"rate as word":            {map[string]string{"BILLING_PROVIDER_RATE": canary}, []string{"BILLING_PROVIDER_RATE: is not a number"}},
		"pending zero":            {map[string]string{"BILLING_PENDING_MAX": "0s"}, []string{"BILLING_PENDING_MAX: want more than 0s"}},
		"retries crossed":         {map[string]string{"BILLING_RETRY_MIN": "10m"}, []string{"BILLING_RETRY_MAX: is 5m0s, want at least BILLING_RETRY_MIN (10m0s)"}},
		"retry at once":           {map[string]string{"BILLING_RETRY_MIN": "0s"}, []string{"BILLING_RETRY_MIN: want more than 0s"}},
		"short relay lease":       {map[string]string{"BILLING_RELAY_LEASE": "9s"}, []string{"BILLING_RELAY_LEASE: want at least 10s"}},
		"short retention":         {map[string]string{"BILLING_RETENTION": "59m"}, []string{"BILLING_RETENTION: want at least 1h0m0s"}},
		"wide skew":               {map[string]string{"BILLING_CLOCK_SKEW": "73h"}, []string{"BILLING_CLOCK_SKEW: want 0s to 72h0m0s"}},
		"negative skew":           {map[string]string{"BILLING_CLOCK_SKEW": "-1s"}, []string{"BILLING_CLOCK_SKEW: want 0s to 72h0m0s"}},
		"unknown currency":        {map[string]string{"BILLING_DEFAULT_CURRENCY": "rub"}, []string{"BILLING_DEFAULT_CURRENCY: want a currency of ISO 4217 such as RUB"}},
		"no amount":               {map[string]string{"BILLING_MAX_AMOUNT_MINOR": "0"}, []string{"BILLING_MAX_AMOUNT_MINOR: want more than 0"}},
		"API address":             {map[string]string{"BILLING_HTTP_ADDR": "8080"}, []string{"BILLING_HTTP_ADDR: is not host:port, want for example :8080"}},
		"operations address":      {map[string]string{"BILLING_OPS_ADDR": ":99999"}, []string{"BILLING_OPS_ADDR: is not host:port, want for example :9090"}},
		"profiles for all":        {map[string]string{"BILLING_PPROF_ADDR": ":6060"}, []string{"BILLING_PPROF_ADDR: is not a loopback host:port, want for example 127.0.0.1:6060"}},
		"tokens missing":          {map[string]string{"BILLING_API_TOKENS_FILE": unset}, []string{"BILLING_API_TOKENS_FILE: is required with role api"}},
		"tokens invalid":          {map[string]string{"BILLING_API_TOKENS_FILE": write(t, `{"clients":[{"name":"`+canary+`"}]}`)}, []string{"BILLING_API_TOKENS_FILE: names a file that is not valid: client 1: token_sha256 is not 64 hex digits"}},
		"tokens of no form":       {map[string]string{"BILLING_API_TOKENS_FILE": write(t, canary)}, []string{"BILLING_API_TOKENS_FILE: names a file that is not valid: not valid JSON at byte 0"}},
		"API rate":                {map[string]string{"BILLING_API_RATE": "NaN"}, []string{"BILLING_API_RATE: want 0 or more"}},
		"keys forgotten early":    {map[string]string{"BILLING_IDEMPOTENCY_KEY_TTL": "59m"}, []string{"BILLING_IDEMPOTENCY_KEY_TTL: want at least 1h"}},
		"tokens unreadable":       {map[string]string{"BILLING_API_TOKENS_FILE": "/" + canary}, []string{"BILLING_API_TOKENS_FILE: names a file that cannot be read: no such file or directory"}},
		"short shutdown":          {map[string]string{"BILLING_SHUTDOWN_TIMEOUT": "1s"}, []string{"BILLING_SHUTDOWN_TIMEOUT: want at least 5s"}},
		"log level":               {map[string]string{"BILLING_LOG_LEVEL": "loud"}, []string{"BILLING_LOG_LEVEL: want one of debug, info, warn, error"}},
		"log format":              {map[string]string{"BILLING_LOG_FORMAT": "xml"}, []string{"BILLING_LOG_FORMAT: want one of json, text"}},
		"misspelt variable":       {map[string]string{"BILLING_PROVIDER_TIMOUT": canary}, []string{"BILLING_PROVIDER_TIMOUT: is unknown, did you mean BILLING_PROVIDER_TIMEOUT?"}},
		"unheard-of variable":     {map[string]string{"BILLING_XYZZY": canary}, []string{"BILLING_XYZZY: is unknown, see billing config for the list"}},
		"file of no secret":       {map[string]string{"BILLING_ROLES_FILE": canary}, []string{"BILLING_ROLES_FILE: is unknown"}},
		"several at once": {
			map[string]string{"BILLING_RETENTION": "x", "BILLING_ROLES": "x", "BILLING_LOG_LEVEL": "x", "BILLING_DATABASE_URL": "\x01"},
			[]string{"BILLING_DATABASE_URL: ", "BILLING_LOG_LEVEL: ", "BILLING_RETENTION: ", "BILLING_ROLES: "},
		},
	} {
		env := goodEnv(t)
		maps.Copy(env, tc.set)
		maps.DeleteFunc(env, func(_, value string) bool { return value == unset })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := billing(t, env, "config")
			if code != exitConfiguration {
				t.Errorf("exit code %d, want %d", code, exitConfiguration)
			}
			// Values are there to be seen on stdout, in the list; no fault ever repeats one.
			checkNoCanary(t, stderr)
			checkFaults(t, stderr, tc.want)
			if want := len(variables()) + 1; strings.Count(stdout, "\n") != want {
				t.Errorf("the list has %d lines, want %d, although the configuration is wrong", strings.Count(stdout, "\n"), want)
			}
		})
	}
}

// checkFaults wants exactly one line for each fault, each beginning as given.
func checkFaults(t *testing.T, stderr string, want []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")[1:]
	if len(lines) != len(want) {
		t.Fatalf("got %d faults, want %d:\n%s", len(lines), len(want), stderr)
	}
	slices.Sort(want)
	for i, line := range lines {
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(line, "  "+w) }) {
			t.Errorf("fault %d is %q, want one of %q", i, line, want)
		}
	}
}
